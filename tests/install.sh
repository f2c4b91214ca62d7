#!/bin/sh
# What tests need beyond Python: Node, npm and Chromium with the pinned packages of tests/browser, and nginx.
# Fails with a sentence when something cannot be installed; the tests that need it are then skipped.
cd "$(dirname "$0")/browser" || exit 1
PATH="$PATH:/usr/sbin"  # where nginx is, and users other than root do not look

missing=""
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' 2>/dev/null || missing="$missing nodejs"
command -v npm >/dev/null || missing="$missing npm"
command -v chromium >/dev/null || missing="$missing chromium"
command -v nginx >/dev/null || missing="$missing nginx-light"

# Tests run an nginx of their own. The package would start one for the whole machine, now and at every boot.
install() (
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap '$as_root rm -f $policy' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null && $as_root chmod 755 $policy || exit 1
  fi
  $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null || exit 1
  case "$missing" in *nginx*) $as_root systemctl --quiet disable --now nginx >/dev/null 2>&1 ;; esac
  exit 0
)

if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo"; else as_root="nobody"; fi
  if [ "$as_root" = nobody ] || ! command -v apt-get >/dev/null; then
    echo "Some tests will be skipped: please install$missing (on Debian: apt-get install$missing)." >&2
    exit 1
  fi
  echo "Installing$missing ..."
  install || {
    echo "Some tests will be skipped: apt-get could not install$missing." >&2
    exit 1
  }
fi
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null || {
  echo "Tests with foreign clients will be skipped: npm ci failed in tests/browser." >&2
  exit 1
}
