# SPDX-License-Identifier: Apache-2.0
# fish completion of agent-relay. The program itself knows what fits; where it has nothing to offer, files do.
function __agent_relay_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l found ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete --command agent-relay --no-files --arguments '(__agent_relay_complete)'
