# exit 2
live digits adaptdl scale digits none
