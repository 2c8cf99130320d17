# exit 1
# Folders that cannot be written are told with what to do.
touch file
adaptdl run --log-dir file/logs -- true
echo $?
adaptdl run --checkpoint-dir file/checkpoints -- true
echo $?
adaptdl torchrun --log-dir file/logs --no-python true
