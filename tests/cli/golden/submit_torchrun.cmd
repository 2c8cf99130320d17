# exit 2
# torchrun's flags that a job does not have: each is told with what to do instead.
for flag in --nnodes=2 --node_rank=0 --rdzv-backend=c10d --rdzv-endpoint=a:1 --rdzv-id=x \
    --master-port=1 --monitor-interval=5 --start-method=spawn --no-python --virtual-local-rank; do
  adaptdl submit $flag -- true
done
adaptdl submit --rdzv_endpoint a:1 --standalone -- true
adaptdl run --nnodes 2 -- true
