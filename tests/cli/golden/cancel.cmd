# exit 0
live digits adaptdl cancel digits
live digits adaptdl cancel digits --now -o json
