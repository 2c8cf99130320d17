# exit 2
archive train.pt
export ADAPTDL_WORKER=$FAKE_WORKER XDG_CONFIG_HOME=$PWD/config
adaptdl run train.pt --nnodes 2; echo $?
adaptdl run train.pt --nnodes 0 --rdzv-endpoint a; echo $?
adaptdl run train.pt --nnodes 3:2 --rdzv-endpoint a; echo $?
adaptdl run train.pt --rdzv-endpoint a; echo $?
adaptdl run train.pt --rdzv-key file; echo $?
for endpoint in :1 a:0 a:65536 a:b ::1 '[::1' '[::1]2'; do
  adaptdl run train.pt --nnodes 2 --rdzv-endpoint "$endpoint"
done
adaptdl run train.pt --nnodes 2 --rdzv-endpoint a --replicas 1:2; echo $?
adaptdl run train.pt --nnodes 2 --rdzv-endpoint a --evaluate; echo $?
echo short > key && chmod 600 key
adaptdl run train.pt --nnodes 2 --rdzv-endpoint a --rdzv-key key; echo $?
chmod 640 key
adaptdl run train.pt --nnodes 2 --rdzv-endpoint a --rdzv-key key; echo $?
ls config 2>&1
adaptdl run train.pt --hosts a.invalid:1,b.invalid; echo $?
adaptdl run train.pt --hosts localhost:0; echo $?
adaptdl run train.pt --hosts localhost,localhost; echo $?
adaptdl run train.pt --hosts localhost,a.invalid --rdzv-key key; echo $?
adaptdl run train.pt --nnodes 2 --rdzv-endpoint a --rdzv-key - < /dev/null; echo $?
adaptdl run train.pt --interface lo; echo $?
for ports in 5 5-4 0-1 1-70000; do
  adaptdl run train.pt --nnodes 2 --rdzv-endpoint a --ports $ports
done
adaptdl run train.pt --nnodes 2 --rdzv-endpoint a.invalid --replicas 3 --ports 5-6; echo $?
adaptdl run train.pt --nnodes 2 --rdzv-endpoint a --advertise node1; echo $?
(
  export ADAPTDL_RESCALE=live ADAPTDL_SUPERVISOR_URL=http://127.0.0.1:1/j/t ADAPTDL_JOB_ID=a/b
  export ADAPTDL_JOB_TOKEN=t ADAPTDL_NUM_RESTARTS=0 ADAPTDL_REPLICA_RANK=0 ADAPTDL_MASTER_PORT=1
  adaptdl run train.pt --hosts localhost --checkpoint-dir here; echo $?
  adaptdl run train.pt --spares 1 --checkpoint-dir here; echo $?
)
adaptdl run gone.pt --witness --nnodes 2 --rdzv-endpoint a; echo $?
adaptdl run train.pt --witness; echo $?
adaptdl run train.pt --witness --nnodes 2 --rdzv-endpoint localhost; echo $?
adaptdl run --witness --name train --nnodes 2 --rdzv-endpoint a -- true; echo $?
adaptdl run --hosts localhost,a -- true
