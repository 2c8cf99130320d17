# exit 1
live digits adaptdl scale digit 3
