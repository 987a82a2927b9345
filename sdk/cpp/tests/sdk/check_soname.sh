#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails unless LIBRARY has a SONAME with a number, and PROGRAM needs exactly this SONAME.
# Usage: check_soname.sh LIBRARY PROGRAM
set -eu
soname=$(readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
case "$soname" in
    libdriveline.so.[0-9]*) ;;
    *) echo "$1 has the SONAME '$soname'"; exit 1 ;;
esac
needed=$(readelf -d "$2" | sed -n 's/.*(NEEDED).*\[\(.*driveline.*\)\]/\1/p')
[ "$needed" = "$soname" ] || { echo "$2 needs '$needed', the library is $soname"; exit 1; }
