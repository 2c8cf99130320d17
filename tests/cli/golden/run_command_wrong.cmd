# exit 2
echo 'print(1)' > train.py
adaptdl run -- train.py; echo $?
adaptdl run -- ./train.py; echo $?
adaptdl run -- no-such-program; echo $?
echo 'exit 0' > headless; chmod +x headless
adaptdl run -- ./headless; echo $?
adaptdl run --set optimizer.lr=1 -- true; echo $?
adaptdl run --tee 3 train.pt; echo $?
adaptdl run --tee 7 -- true; echo $?
adaptdl run --local-ranks-filter a -- true; echo $?
adaptdl run --grace soon -- true; echo $?
adaptdl run --name a/b -- true; echo $?
adaptdl run
