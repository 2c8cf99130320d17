# exit 102
live digits adaptdl scale digit 3
