# exit 2
adaptdl submit nothing
echo $?
adaptdl submit .
echo $?
adaptdl submit -- no-such-command
echo $?
echo text > text
adaptdl submit text
echo $?
adaptdl submit --replicas 3:2 -- true
echo $?
adaptdl submit --name 'My Job' -- true
echo $?
adaptdl submit
