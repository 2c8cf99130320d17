# exit 2
echo text > text
adaptdl export text out.safetensors
adaptdl export nowhere.pt out.pt
ls out*
adaptdl export text out.onnx
