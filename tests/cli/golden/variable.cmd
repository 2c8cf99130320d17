# exit 2
ADAPTDL_RUN_MAX_RESTARTS=many adaptdl run train.pt
