# exit 1
ADAPTDL_LIBTORCH=/nowhere adaptdl doctor | grep -A1 libtorch | sed "s/torch==[^,]*,/torch,/"
ADAPTDL_LIBTORCH=/nowhere adaptdl doctor > /dev/null
