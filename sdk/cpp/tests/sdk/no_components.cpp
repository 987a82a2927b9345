// SPDX-License-Identifier: Apache-2.0
// A library that uses the SDK and registers nothing.
#include <driveline/driveline.hpp>
