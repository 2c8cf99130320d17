# exit 0
live digits adaptdl scale digits 3
live digits adaptdl scale digits 3 -o json
