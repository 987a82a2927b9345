#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages and the Rust that Driveline needs, on Debian 12, Ubuntu 24.04 or newer.
# Does nothing and prints nothing if everything is installed.
# Usage: tools/setup.sh demo|test|engines|gateways|tidy|peers|containers
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# Package lists. `lists` are required. Without a package of `optional`, a part is left out.
optional=()
case "${1:-}" in
    demo) lists=(tools/packages/demo.txt) ;;
    test)
        lists=(tools/packages/demo.txt tools/packages/test.txt)
        optional=(tools/packages/browser.txt tools/packages/compilers.txt)
        ;;
    engines) lists=(tools/packages/engines.txt) ;;
    gateways)
        lists=(tools/packages/demo.txt tools/packages/test.txt)
        lists+=(tools/packages/engines.txt tools/packages/gateways.txt)
        ;;
    tidy) lists=(tools/packages/tidy.txt) ;;
    peers) lists=(tools/packages/peers.txt) optional=(tools/packages/middleware.txt) ;;
    containers) lists=(tools/packages/containers.txt) ;;
    *) die "usage: tools/setup.sh demo|test|engines|gateways|tidy|peers|containers" ;;
esac

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Sets `missing` to the packages of these lists that are not installed.
find_missing() {
    local name why
    missing=()
    while read -r name why; do
        case "$name" in '' | '#'*) continue ;; esac
        if [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" != installed ]; then
            missing+=("$name")
            say "missing: $name ($why)"
        fi
    done < <(cat "$@")
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

install_packages() {
    local missing
    find_missing "${lists[@]}"
    [ ${#missing[@]} -eq 0 ] && return
    command -v apt-get >/dev/null ||
        die "there is no apt-get on this machine; install by other means: ${missing[*]}"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        die "installing needs root and there is no sudo; run as root: apt-get install ${missing[*]}"
    say "installing with apt-get: ${missing[*]}"
    as_root apt-get update -q || say "apt-get update failed; trying with the old package lists"
    apt_install "${missing[@]}" || die "apt-get could not install the packages; its reason is above"
}

# Installs packages and reports those that cannot be installed, which is no failure.
install_optional() {
    local missing name
    find_missing "$@"
    [ ${#missing[@]} -eq 0 ] && return
    if ! command -v apt-get >/dev/null; then
        say "there is no apt-get on this machine: parts that need these packages are left out" \
            "unless you install them by other means: ${missing[*]}"
        return
    fi
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        say "installing needs root and there is no sudo: parts that need these packages are left" \
            "out; to add them, run as root: apt-get install ${missing[*]}"
        return
    fi
    say "installing with apt-get: ${missing[*]}"
    as_root apt-get update -q || say "apt-get update failed; trying with the old package lists"
    apt_install "${missing[@]}" && return
    say "apt-get could not install all of them; trying one at a time"
    for name in "${missing[@]}"; do
        apt_install "$name" || say "left out: $name; apt-get's reason is above"
    done
}

# Succeeds if version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

# Prints the version of cargo, or nothing if there is none.
cargo_version() { (cargo --version 2>/dev/null || true) | sed -n 's/^cargo \([0-9.]*\).*/\1/p'; }

install_rust() {
    local needed have
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    [ -n "$needed" ] || die "Cargo.toml names no rust-version"
    have=$(cargo_version)
    if [ -z "$have" ] || ! at_least "$have" "$needed"; then
        if command -v rustup >/dev/null; then
            say "Rust ${have:-(none)} is older than $needed;" \
                "installing stable with rustup, for this directory only"
            rustup toolchain install stable --profile minimal
            rustup override set stable
        else
            say "Rust ${have:-(none)} is missing or older than $needed;" \
                "installing stable with rustup into your home directory"
            curl --proto '=https' --tlsv1.2 -fsS https://sh.rustup.rs |
                sh -s -- -y --quiet --no-modify-path --profile minimal --default-toolchain stable ||
                die "the Rust installer failed;" \
                    "install Rust $needed or newer (https://rustup.rs) and try again"
            hash -r
        fi
        have=$(cargo_version)
        at_least "${have:-0}" "$needed" ||
            die "Rust is still ${have:-missing}; $needed or newer is needed"
    fi
    [ "$1" = test ] || return 0
    local tool
    for tool in fmt clippy; do
        cargo "$tool" --version >/dev/null 2>&1 && continue
        command -v rustup >/dev/null ||
            die "cargo $tool is missing; install your distribution's package for it"
        say "adding cargo $tool"
        rustup component add "${tool/#fmt/rustfmt}"
    done
}

# rustup installs its programs here; a new installation is not yet in the PATH.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
install_packages
[ ${#optional[@]} -eq 0 ] || install_optional "${optional[@]}"
install_rust "$1"
