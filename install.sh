#!/bin/sh
# Builds recall from this folder, puts it into ~/.local/bin and connects it to the coding agents found.
# Needs a Rust toolchain and a C compiler, and nothing else.

set -eu

usage() {
    cat <<'EOF'
Usage: ./install.sh [--prefix DIR] [--no-agents] [--no-service] [--import] [--no-model] [--no-demo]

  --prefix DIR    install into DIR/bin instead of ~/.local/bin
  --no-agents     only build and copy; `recall install` connects the agents later
  --no-service    leave the service manager alone; hooks start the daemon by themselves
  --import        also take in the sessions that the agents have recorded so far
  --no-model      do not get the sentence model (87 MiB) that lets searches find what is said in other words
  --no-demo       do not show recall at work at the end
EOF
}

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

wrong_usage() {
    printf 'install.sh: %s\n' "$*" >&2
    usage >&2
    exit 2
}

check_tools() {
    # rustup tells login shells about its folder, but not the one that is already open.
    if ! command -v cargo >/dev/null 2>&1 && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
        export PATH
    fi
    for tool in cargo rustc; do
        command -v "$tool" >/dev/null 2>&1 ||
            fail "a Rust toolchain is missing ($tool). Get one from https://rustup.rs and run this again."
    done
    # Minor version of 1.x, from the one place that says which compiler is old enough.
    needed_rust=$(sed -n 's/^rust-version = "1\.\([0-9][0-9]*\).*/\1/p' "$root/Cargo.toml")
    version=$(rustc --version) || fail "rustc does not start."
    minor=$(printf '%s\n' "$version" | sed -n 's/^rustc 1\.\([0-9][0-9]*\)\..*/\1/p')
    if [ -n "$minor" ] && [ -n "$needed_rust" ] && [ "$minor" -lt "$needed_rust" ]; then
        fail "Rust 1.$needed_rust or newer is needed, this is $version. With rustup: rustup update stable"
    fi
    for compiler in "${CC:-}" cc gcc clang; do
        # CC may hold options after the name.
        if [ -n "$compiler" ] && command -v "${compiler%% *}" >/dev/null 2>&1; then
            return
        fi
    done
    fail "a C compiler is missing (SQLite is built with it). For example: apt-get install build-essential"
}

build_recall() {
    say "Building recall. The first time takes several minutes."
    (cd "$root" && cargo build --locked --release --package recall-memory --target-dir "$target")
    recall=$target/release/recall
}

# The hook client runs at every step of an agent. Linked statically it starts in about two thirds of the time, because
# the loader's work is most of it. Naming the target keeps the flag away from procedural macros, which cannot have it.
build_shim() {
    host=$(rustc -vV | sed -n 's/^host: //p')
    case $host in
    *-linux-gnu)
        static=$target/$host/shim/recall-shim
        if (cd "$root" && cargo build --locked --profile shim --package recall-shim --target-dir "$target" \
            --target "$host" --config "target.$host.rustflags=[\"-C\",\"target-feature=+crt-static\",\"-C\",\"relocation-model=static\"]") &&
            starts "$static"; then
            shim=$static
            return
        fi
        say "A static hook client cannot be built here; building an ordinary one."
        ;;
    esac
    (cd "$root" && cargo build --locked --profile shim --package recall-shim --target-dir "$target")
    shim=$target/shim/recall-shim
    starts "$shim" || fail "$shim does not start."
}

# Switched off by the variable, the client does nothing and succeeds.
starts() {
    RECALL_DISABLE=1 "$1" claude-code </dev/null >/dev/null 2>&1
}

# Both programs lie ready before the old daemon ends, and a rename puts each in place: a hook that runs meanwhile finds
# the old program or the new one.
copy_programs() {
    mkdir -p "$bin"
    new_recall=$bin/.recall.$$
    new_shim=$bin/.recall-shim.$$
    trap 'rm -f "$new_recall" "$new_shim"' EXIT
    trap 'exit 1' HUP INT TERM
    cp "$recall" "$new_recall"
    cp "$shim" "$new_shim"
    chmod 755 "$new_recall" "$new_shim"
    if [ -x "$bin/recall" ]; then
        # That none runs is no failure.
        "$bin/recall" ctl stop </dev/null >/dev/null 2>&1 || :
    fi
    mv -f "$new_shim" "$bin/recall-shim"
    mv -f "$new_recall" "$bin/recall"
    say "Installed $bin/recall and $bin/recall-shim."
}

# Where man and the shells look. That they are missing is no reason to fail.
write_documents() {
    "$root/tools/documents" "$bin/recall" "${prefix%/}/share" ||
        say "The manual pages and completion scripts were not written (see above)."
}

connect_agents() {
    set -- install --yes
    if [ "$service" = no ]; then
        set -- "$@" --no-service
    fi
    if [ "$import" = yes ]; then
        set -- "$@" --import
    fi
    if [ "$model" = no ]; then
        set -- "$@" --no-model
    elif [ -t 0 ] && [ -t 1 ]; then
        set -- "$@" --ask-model
    fi
    "$bin/recall" "$@" ||
        fail "the programs are in place, but connecting the agents failed (see above). Later: $bin/recall $*"
}

mention_path() {
    case :$PATH: in
    *:"$bin":*) ;;
    *)
        say "$bin is not on your PATH. Add this line to your shell's profile, and type it now:"
        say "  export PATH=\"$bin:\$PATH\""
        ;;
    esac
}

agents=yes
service=yes
import=no
model=yes
demo=yes
prefix=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || wrong_usage "--prefix needs a folder"
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --no-agents) agents=no ;;
    --no-service) service=no ;;
    --import) import=yes ;;
    --no-model) model=no ;;
    --no-demo) demo=no ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) wrong_usage "unknown option $1" ;;
    esac
    shift
done

[ -n "${HOME:-}" ] || fail "HOME is not set."
case $prefix in
"") prefix=$HOME/.local ;;
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
bin=${prefix%/}/bin
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in
/*) ;;
*) target=$PWD/$target ;;
esac

check_tools
build_recall
build_shim
copy_programs
# All that is said from here on is typed as `recall`.
mention_path
write_documents
if [ "$agents" = yes ]; then
    connect_agents
fi
if [ "$demo" = yes ]; then
    "$bin/recall" demo || fail "recall is installed, but its demo failed (see above)."
fi
