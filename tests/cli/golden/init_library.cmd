# exit 0
adaptdl init library there && ls there
adaptdl init library other --build meson -q -o json
