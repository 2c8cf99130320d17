# exit 2
adaptdl init digits there --build meson
