# exit 0
live digits adaptdl scale digits 3
live digits adaptdl scale digits 3 -o json
# A command's replicas are restarted, unless their number stays.
export RESTARTABLE=false
live lv adaptdl scale lv 2
live lv adaptdl scale lv 1
