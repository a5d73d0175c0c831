# SPDX-License-Identifier: Apache-2.0
# bash completion for the `verbatim` command

# Interfaces of this host that are not in the list yet, for --devices.
_verbatim_devices()
{
    local done=${cur%"${cur##*,}"} name
    for name in /sys/class/net/*; do
        COMPREPLY+=($(compgen -P "$done" -W "${name##*/}" -- "${cur##*,}"))
    done
    compopt -o nospace
}

# The fabrics that run.
_verbatim_fabrics()
{
    COMPREPLY=($(compgen -W "$("${words[0]}" fabric list 2>/dev/null)" -- "$cur"))
}

# The nodes of the fabric that the command line names, or of the only one.
_verbatim_nodes()
{
    local at name=()
    for ((at = 1; at < cword; at++)); do
        [[ ${words[at]} == --fabric ]] && name=(--fabric "${words[at + 1]}")
    done
    COMPREPLY=($(compgen -W "$("${words[0]}" fabric show nodes "${name[@]}" 2>/dev/null |
        tail -n +2 | cut -d' ' -f1)" -- "$cur"))
}

_verbatim_fabric()
{
    local -A options=(
        [up]="--tree --ring --fat-tree --torus --rate --rates --opensm --opensm-node --opensm-options --timeout --strict-switches --loss
              --faults --capture --seed --detach --help"
        [run]="--tree --ring --fat-tree --torus --rate --rates --opensm --opensm-node --opensm-options --timeout --strict-switches --loss
              --faults --capture --seed --node --help"
        [down]="--help"
        [list]="--json --help"
        [link]="--fabric --help"
        [node]="--fabric --help"
        [switch]="--fabric --help"
        [loss]="--fabric --help"
        [capture]="--fabric --for --count --help"
        [show]="--fabric --json --help")
    local subcommand=${words[2]} at

    if ((cword == 2)); then
        COMPREPLY=($(compgen -W "${!options[*]} --help" -- "$cur"))
        return
    fi
    if [[ $subcommand == run ]]; then
        for ((at = 3; at < cword; at++)); do
            [[ ${words[at]} == -- ]] && { _command_offset $((at + 1)); return; }
        done
    fi
    case $prev in
        --fabric) _verbatim_fabrics; return ;;
        --faults) _filedir; return ;;
        --node | --opensm-node) return ;;  # of a fabric that does not run yet
        --tree | --ring | --fat-tree | --torus | --rate | --rates | --opensm-options | --timeout | --loss | --seed | --capture | --for | --count) return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "${options[$subcommand]}" -- "$cur"))
        return
    fi
    case $subcommand in
        up) ((cword > 3)) && _filedir ;;
        run) _filedir ;;
        down) _verbatim_fabrics ;;
        link) ((cword == 3)) && COMPREPLY=($(compgen -W "down up loss faults error" -- "$cur")) || _verbatim_nodes ;;
        node) ((cword == 3)) && COMPREPLY=($(compgen -W "off on describe" -- "$cur")) || _verbatim_nodes ;;
        capture) ((cword == 3)) && _verbatim_nodes || _filedir ;;
        switch) ((cword == 3)) && COMPREPLY=($(compgen -W "off on" -- "$cur")) || _verbatim_nodes ;;
        show)
            ((cword == 3)) && COMPREPLY=($(compgen -W "nodes links ports drops faults captures route deadlock topology" -- "$cur")) ||
                _verbatim_nodes ;;
    esac
}

_verbatim()
{
    local cur prev words cword
    _init_completion || return

    local -A options=(
        [run]="--devices --faults --capture --fabric --node --help"
        [fabric]="--help"
        [devices]="--json --help"
        [doctor]="--json --program --peer --serve --port --help"
        [stat]="--json --all --watch --once --interval --help"
        [demo]="--seed --loss --help"
        [sim]="--seed --histories --goodput --fabric --rate --lft --routing --sl2vl --pattern --message --load --duration --sl --queue-life --lane-buffer --hop-delay --json --help")
    local command=${words[1]}

    if ((cword == 1)); then
        COMPREPLY=($(compgen -W "${!options[*]} --help --version" -- "$cur"))
        return
    fi
    if [[ $command == fabric ]]; then
        _verbatim_fabric
        return
    fi
    if [[ $command == run ]]; then
        # The first word that is neither an option of `run` nor its value is the program.
        local at=2
        while ((at < cword)); do
            case ${words[at]} in
                --) ((at++)); _command_offset "$at"; return ;;
                --devices | --faults | --capture | --fabric | --node) ((at += 2)) ;;
                -*) ((at++)) ;;
                *) _command_offset "$at"; return ;;
            esac
        done
    fi
    case $prev in
        --devices) _verbatim_devices; return ;;
        --fabric) _verbatim_fabrics; return ;;
        --node) _verbatim_nodes; return ;;
        --capture | --program) _filedir; return ;;
        --peer) _known_hosts_real -- "$cur"; return ;;
        --faults | --port | --interval | --seed | --loss | --histories) return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "${options[$command]}" -- "$cur"))
    elif [[ $command == run ]]; then
        _command_offset "$cword"
    fi
} && complete -F _verbatim verbatim
