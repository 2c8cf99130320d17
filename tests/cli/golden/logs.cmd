# exit 0
live digits adaptdl logs digits
echo
live digits adaptdl logs digits --replica 2 --tail 1
echo
adaptdl logs digits --tail 1 --follow
