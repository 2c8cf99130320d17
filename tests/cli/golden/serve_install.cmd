# exit 2
adaptdl serve --install -q --slots fast=2,slow=6 --policy pollux --policy-option fairness=-2
unit="$HOME/.config/systemd/user/adaptdl.service"
grep ExecStart= "$unit" | sed 's/"[^"]*" serve/ADAPTDL serve/'
ADAPTDL_SERVE_SLOTS=3 adaptdl serve --install -q
grep ExecStart= "$unit" | sed 's/"[^"]*" serve/ADAPTDL serve/'
service adaptdl serve --install 2>&1 >/dev/null | grep 'serve --stop'
adaptdl serve --install --policy polux
adaptdl serve --install --slots none
adaptdl serve --install --stop
ADAPTDL_SERVE_SLOTS=3 adaptdl serve --stop
adaptdl serve --stop --slots 2
