# SPDX-License-Identifier: Apache-2.0 OR MIT
# To be sourced: packages PROBE:PACKAGE ... installs the packages whose probe fails. A probe is a
# command's name, a header's name, or an absolute path, which may be a pattern. Without root or sudo
# it prints the line to run.

packages_probe() {
    case $1 in
    # shellcheck disable=SC2086
    /*) ls -d $1 >/dev/null 2>&1 ;;
    *.h) [ -e "/usr/include/$1" ] || [ -n "$(ls /usr/include/*/"$1" 2>/dev/null)" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

packages() {
    missing=
    for p in "$@"; do
        packages_probe "${p%%:*}" || missing="$missing ${p#*:}"
    done
    [ -n "$missing" ] || return 0
    sudo=
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
            sudo="sudo -n"
        else
            echo "Missing packages. Run this, then again what you just ran:" >&2
            echo "  sudo apt-get install -y --no-install-recommends$missing" >&2
            return 1
        fi
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "Missing (Debian names):$missing" >&2
        return 1
    fi
    echo "== installing$missing"
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null 2>&1 || true
    # The run level keeps packages from starting their services.
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q \
        --no-install-recommends -o Dpkg::Use-Pty=0 $missing >/tmp/snic_apt.$$ 2>&1 || {
        # One that cannot be had must not keep the others away.
        failed=
        for p in $missing; do
            $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q \
                --no-install-recommends -o Dpkg::Use-Pty=0 "$p" >/tmp/snic_apt.$$ 2>&1 ||
                { failed="$failed $p"; tail -n 5 /tmp/snic_apt.$$ >&2; }
        done
        rm -f /tmp/snic_apt.$$
        [ -z "$failed" ] || { echo "== not installed:$failed"; return 1; }
    }
    rm -f /tmp/snic_apt.$$
}
