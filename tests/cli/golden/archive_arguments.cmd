# exit 0
# An archive's code could not see them; they were silently ignored.
archive train.pt
mkdir folder
archive folder/train.pt
adaptdl run train.pt -- --x 1; echo $?
adaptdl submit train.pt -- --x 1; echo $?
echo 'archive: train.pt' > folder/adaptdljob.yaml
adaptdl submit folder --dry-run -- --x 1; echo $?
echo 'args: [--x]' >> folder/adaptdljob.yaml
adaptdl submit folder --dry-run; echo $?
