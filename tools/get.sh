#!/bin/sh
# Downloads recall for this machine, verifies its checksum, puts both programs into ~/.local/bin and connects the coding
# agents found. A release publishes this file with its own URL and version filled in.
#
# The checksum comes from the same server as the archive: it detects a damaged download, not a replaced one. If the GitHub
# command line is logged in, this script also verifies the archive's attestation: that the release's own workflow built it.
# RECALL_SHA256 pins a checksum from elsewhere.
#
# Everything is in a function that the last line calls, so that an incomplete download runs nothing.
#
# Usage: get.sh [--prefix DIR] [--no-connect] [--no-model]

set -eu

# The URL of the archives, and their version. Both can be overridden, for a mirror.
base=${RECALL_DOWNLOADS:-@DOWNLOADS@}
version=${RECALL_VERSION:-@VERSION@}

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'get.sh: %s\n' "$*" >&2
    exit 1
}

download() {
    if command -v curl >/dev/null 2>&1; then
        curl -fsSL --proto '=https,file' --output "$work/$1" "$base/$1"
    elif command -v wget >/dev/null 2>&1; then
        wget -q --https-only -O "$work/$1" "$base/$1"
    else
        fail "curl or wget is needed"
    fi || fail "cannot download $base/$1"
}

# Verifies who built the archive, if possible. Only releases on GitHub have attestations.
verify() {
    case $base in
    https://github.com/*/releases/*) ;;
    *) return 0 ;;
    esac
    repository=${base#https://github.com/}
    repository=${repository%%/releases/*}
    if command -v gh >/dev/null 2>&1 && gh auth status >/dev/null 2>&1; then
        gh attestation verify "$work/$1" --repo "$repository" >/dev/null 2>&1 ||
            fail "the attestation of $1 is not one of $repository: nothing was installed"
        say "Verified that $repository built this archive."
    elif [ -z "${RECALL_SHA256:-}" ]; then
        say "Who built the archive was not verified: that needs a logged-in gh. See docs/reliability.md."
    fi
}

main() {
    prefix=${HOME:-}/.local
    connect=yes
    model=yes
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix)
            [ $# -ge 2 ] || fail "--prefix needs a folder"
            prefix=$2
            shift
            ;;
        --no-connect) connect=no ;;
        --no-model) model=no ;;
        -h | --help)
            say "Usage: get.sh [--prefix DIR] [--no-connect] [--no-model]"
            exit 0
            ;;
        *) fail "unknown option $1" ;;
        esac
        shift
    done
    case $prefix in
    /?*) ;;
    *) fail "--prefix needs an absolute folder, not \"$prefix\"" ;;
    esac
    case $base in
    @*) fail "this copy does not know where the archives lie: set RECALL_DOWNLOADS and RECALL_VERSION, or build with install.sh" ;;
    esac

    machine=$(uname -m)
    case $(uname -s)/$machine in
    Linux/x86_64) target=x86_64-unknown-linux-musl ;;
    Linux/aarch64 | Linux/arm64) target=aarch64-unknown-linux-musl ;;
    Darwin/x86_64) target=x86_64-apple-darwin ;;
    Darwin/arm64) target=aarch64-apple-darwin ;;
    *) fail "there is no archive for $(uname -s) on $machine; build with install.sh" ;;
    esac

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    name=recall-$version-$target
    download "$name.tar.gz"
    download "$name.tar.gz.sha256"
    wanted=${RECALL_SHA256:-$(cut -d ' ' -f 1 "$work/$name.tar.gz.sha256")}
    if command -v sha256sum >/dev/null 2>&1; then
        found=$(sha256sum "$work/$name.tar.gz" | cut -d ' ' -f 1)
    else
        found=$(shasum -a 256 "$work/$name.tar.gz" | cut -d ' ' -f 1)
    fi
    if [ -z "$found" ] || [ "$found" != "$wanted" ]; then
        fail "the checksum of $name.tar.gz is not the published one: nothing was installed"
    fi

    verify "$name.tar.gz"

    tar -xzf "$work/$name.tar.gz" -C "$work"
    mkdir -p "$prefix/bin"
    for program in recall-shim recall; do
        cp "$work/$name/$program" "$prefix/bin/.$program.$$"
        chmod 755 "$prefix/bin/.$program.$$"
    done
    # Otherwise an old daemon would keep running. It is no failure if none runs.
    if [ -x "$prefix/bin/recall" ]; then
        "$prefix/bin/recall" ctl stop </dev/null >/dev/null 2>&1 || :
    fi
    # Manual pages and completion scripts go where man and the shells look for them.
    if [ -d "$work/$name/share" ]; then
        mkdir -p "$prefix/share"
        cp -R "$work/$name/share/." "$prefix/share/"
    fi
    # A rename is atomic: a hook that runs meanwhile finds either the old or the new program.
    for program in recall-shim recall; do
        mv -f "$prefix/bin/.$program.$$" "$prefix/bin/$program"
    done
    say "Installed recall $version into $prefix/bin."
    if [ "$connect" = yes ]; then
        set -- install --yes
        if [ "$model" = no ]; then
            set -- "$@" --no-model
        elif [ -t 0 ] && [ -t 1 ]; then
            set -- "$@" --ask-model
        fi
        "$prefix/bin/recall" "$@" || fail "the programs are in place, but connecting the agents failed. Later: $prefix/bin/recall install"
    fi
    case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) say "Add $prefix/bin to your PATH." ;;
    esac
}

main "$@"
