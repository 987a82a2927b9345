# SPDX-License-Identifier: Apache-2.0
"""Tests of check_licences.py: SPDX expressions and exceptions."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from check_licences import ExpressionError, is_allowed, violations  # noqa: E402

ALLOWED = {"MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"}


class Licences(unittest.TestCase):
    def test_expressions(self):
        for expression, expected in {
            "MIT": True,
            "GPL-3.0-only": False,
            "MIT OR GPL-3.0-only": True,
            "GPL-3.0-only OR MIT": True,
            "MIT/GPL-3.0-only": True,
            "MIT AND GPL-3.0-only": False,
            "(MIT OR Apache-2.0) AND Unicode-3.0": True,
            "(MIT OR Apache-2.0) AND OFL-1.1": False,
            "MIT OR Apache-2.0 AND OFL-1.1": True,
            "GPL-2.0-only OR Apache-2.0 AND OFL-1.1": False,
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only": True,
            "GPL-2.0-only WITH Classpath-exception-2.0": False,
        }.items():
            self.assertEqual(is_allowed(expression, ALLOWED), expected, expression)

    def test_what_is_no_expression_is_said_so(self):
        for bad in ("", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT Apache-2.0"):
            with self.assertRaises(ExpressionError, msg=bad):
                is_allowed(bad, ALLOWED)

    def test_violations_name_the_package(self):
        packages = [
            {"name": "good", "version": "1.0.0", "license": "MIT"},
            {"name": "viral", "version": "2.0.0", "license": "GPL-3.0-only"},
            {"name": "silent", "version": "3.0.0", "license": None},
            {"name": "odd", "version": "4.0.0", "license": "MIT OR"},
        ]
        found = list(violations(packages, ALLOWED))
        self.assertEqual([line.split()[0] for line in found], ["viral", "silent", "odd"])

    def test_an_exception_is_for_one_package(self):
        packages = [
            {"name": name, "version": "1.0.0", "license": "MPL-2.0"} for name in ("tool", "other")
        ]
        (line,) = violations(packages, ALLOWED, {"tool": ["MPL-2.0"]})
        self.assertTrue(line.startswith("other"))


if __name__ == "__main__":
    unittest.main()
