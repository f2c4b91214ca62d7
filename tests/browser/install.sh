#!/bin/sh
# What the tests with foreign clients need beyond Python: Node, npm, Chromium, and the pinned packages of this directory.
# Fails with a sentence when something cannot be installed; those tests are then skipped.
cd "$(dirname "$0")" || exit 1

missing=""
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' 2>/dev/null || missing="$missing nodejs"
command -v npm >/dev/null || missing="$missing npm"
command -v chromium >/dev/null || missing="$missing chromium"
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo"; else as_root="nobody"; fi
  if [ "$as_root" = nobody ] || ! command -v apt-get >/dev/null; then
    echo "Tests with foreign clients will be skipped: please install$missing (on Debian: apt-get install$missing)." >&2
    exit 1
  fi
  echo "Installing$missing ..."
  $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
    echo "Tests with foreign clients will be skipped: apt-get could not install$missing." >&2
    exit 1
  }
fi
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null || {
  echo "Tests with foreign clients will be skipped: npm ci failed in tests/browser." >&2
  exit 1
}
