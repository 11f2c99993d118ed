#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Records a shell script's work with Agent Relay: each `emit` returns once its event is safe on disk. Usage: record.sh COMMAND...
set -eu

[ $# -gt 0 ] || { echo "usage: record.sh COMMAND..." >&2; exit 2; }

agent-relay daemon start >/dev/null # does nothing when one is running
AGENT_RELAY_SESSION=$(agent-relay emit session.start agent=record.sh --pid $$ | jq -r .session)
export AGENT_RELAY_SESSION # further calls of emit, and `agent-relay note` in the command, go to it
agent-relay emit turn.start prompt="$*" >/dev/null

status=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
"$@" >"$output" 2>&1 || status=$?
cat "$output"
agent-relay emit turn.output text=@"$output" >/dev/null

agent-relay emit turn.end exit_code:=$status >/dev/null
agent-relay emit session.end exit_code:=$status >/dev/null
exit $status
