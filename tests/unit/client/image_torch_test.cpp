#include "core/client/image/image_torch.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>

#include "core/base/files.h"
#include "core/client/image/image_self.h"
#include "tests/unit/base/expect_error.h"

namespace adaptdl::client {
namespace {

using Lines = std::vector<std::string>;

Lines places(const std::vector<oci::TarEntry>& entries) {
  Lines lines;
  for (const oci::TarEntry& entry : entries) lines.push_back(entry.path + " " + entry.source);
  return lines;
}

TEST_CASE("what the loader lists") {
  Lines lines;
  for (const NeededLibrary& library :
       parse_loader_list("\tlinux-vdso.so.1 (0x00007fc3443a2000)\n"
                         "\tlibc10.so => /opt/my torch/lib/libc10.so (0x00007fc32c200000)\n"
                         "\tlibcuda.so.1 => not found\n"
                         "\t/lib64/ld-linux-x86-64.so.2 (0x00007fc3443a4000)\n"
                         "\n"
                         "\tstatically linked\n"
                         "\tlibm.so.6 => /lib/libm.so.6 (0x1)")) {
    lines.push_back(library.name + "|" + library.path);
  }
  CHECK(lines == Lines{"libc10.so|/opt/my torch/lib/libc10.so", "libcuda.so.1|",
                       "ld-linux-x86-64.so.2|/lib64/ld-linux-x86-64.so.2",
                       "libm.so.6|/lib/libm.so.6"});
}

TEST_CASE("what a program is linked with") {
  const std::vector<NeededLibrary> found =
      needed_libraries(std::filesystem::read_symlink("/proc/self/exe"), "/nowhere");
  CHECK(std::any_of(found.begin(), found.end(), [](const NeededLibrary& library) {
    return library.name == "libc.so.6" && path_exists(library.path);
  }));
  const TemporaryDirectory folder;
  replace_file(folder.file("text"), "no program", 0700);
  CHECK_ERROR(needed_libraries(folder.file("text"), ""),
              "the loader cannot list its shared libraries");
}

TEST_CASE("libraries that a process has mapped") {
  CHECK(mapped_libraries("7f00-7f01 r-xp 00000000 fe:00 12  /usr/lib/libm.so.6\n"
                         "7f01-7f02 r--p 00000000 fe:00 12  /usr/lib/libm.so.6\n"
                         "7f03-7f04 r--p 00000000 fe:00 13  /usr/bin/adaptdl\n"
                         "7f05-7f06 r--p 00000000 fe:00 14  /usr/lib/libold.so.1 (deleted)\n"
                         "7f07-7f08 rw-p 00000000 00:00 0   [heap]\n"
                         "7f09-7f0a r--p 00000000 fe:00 15  /lib/a.so") ==
        Lines{"/lib/a.so", "/usr/lib/libm.so.6"});
}

TEST_CASE("where libraries go in an image") {
  const TemporaryDirectory folder;
  const std::string top = std::filesystem::canonical(folder.path()).string();
  const auto file = [&](const std::string& name) {
    make_directories(parent_directory(join_path(top, name)));
    replace_file(join_path(top, name), name);
    return join_path(top, name);
  };
  const std::string torch = file("site/torch/lib/libtorch_cpu.so");
  const std::string cudart = file("site/nvidia/cu13/lib/libcudart.so.13");
  const std::string standard = file("usr/lib/libstdc++.so.6.0.30");
  std::filesystem::create_symlink("libstdc++.so.6.0.30", join_path(top, "usr/lib/libstdc++.so.6"));
  std::filesystem::create_symlink("usr/lib", join_path(top, "lib"));
  const std::string c_library = file("usr/lib/libc.so.6"), loader = file("lib64/ld-linux.so.2");
  file("usr/lib/libcuda.so.1");

  TrainingFiles files;
  for (int time = 0; time < 2; ++time) {  // the same again changes nothing
    add_libraries(
        {{"libtorch_cpu.so", torch},
         {"libcudart.so.13", top + "/site/torch/lib/../../nvidia/cu13/lib/libcudart.so.13"},
         {"libstdc++.so.6", top + "/lib/libstdc++.so.6"},
         {"libc.so.6", top + "/lib/libc.so.6"},
         {"ld-linux.so.2", loader},
         {"libcuda.so.1", top + "/lib/libcuda.so.1"},
         {"libgone.so", ""}},
        top + "/site/torch", files);
  }
  CHECK(places(files.own) == Lines{"/adaptdl-libtorch/lib/libtorch_cpu.so " + torch,
                                   "/adaptdl-libtorch/lib/libcudart.so.13 " + cudart});
  CHECK(places(files.system) == Lines{"/adaptdl-libtorch/lib/libstdc++.so.6 " + standard});
  CHECK(places(files.c_library) ==
        Lines{c_library + " " + top + "/lib/libc.so.6", loader + " " + loader});
  CHECK(files.bytes == file_size(torch) + file_size(cudart));
}

TEST_CASE("LibTorch's layer is the same whatever is above and below") {
  const TemporaryDirectory folder;
  replace_file(folder.file("torch"), "a large library");
  replace_file(folder.file("worker-program"), "a worker");
  TrainingFiles files;
  files.own = {{"/adaptdl-libtorch/lib/libtorch_cpu.so", oci::TarEntry::Kind::file,
                folder.file("torch"), 0755}};
  const std::string alone = oci::write_layer(files.own, folder.file("alone"), {.level = 1}).digest;
  files.system = {{"/adaptdl-libtorch/lib/other.so", oci::TarEntry::Kind::bytes, "x", 0755}};
  files.worker = folder.file("worker-program");
  files.cuda = true;
  oci::Image image = oci::empty_image(oci::this_platform());
  uint64_t packed = 0;
  append_this_program(image, folder.path(), &files, [&](uint64_t bytes) { packed = bytes; });
  REQUIRE(image.manifest["layers"].size() == 3);
  CHECK(image.manifest["layers"][1]["digest"] == alone);
  CHECK(packed > 0);
  CHECK(oci::environment(image, "ADAPTDL_LIBTORCH") == "/adaptdl-libtorch");
  CHECK(oci::environment(image, "ADAPTDL_WORKER") == "/adaptdl-app/adaptdl-worker");
  CHECK(oci::environment(image, "NVIDIA_DRIVER_CAPABILITIES") == "compute,utility");
  CHECK(oci::settings(image)["Entrypoint"] == Json::array({"/adaptdl-app/adaptdl"}));
}

}  // namespace
}  // namespace adaptdl::client
