# exit 1
archive train.pt
ADAPTDL_WORKER=nowhere adaptdl run train.pt
