# exit 1
adaptdl run -- echo hello > /dev/full
