#include "core/oci/image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/oci/digest.h"
#include "core/oci/image_output.h"
#include "core/oci/media_types.h"
#include "core/oci/saved_image.h"
#include "tests/unit/base/expect_error.h"
#include "tests/unit/oci/fake_registry.h"

namespace adaptdl::oci::image_test {
namespace {

const Platform kPlatform{"linux", "amd64", ""};

struct Base {
  bool docker = false;
  bool foreign = false;
  size_t bytes = 100'000;
};

// An image of two layers in the fake, with fields that nobody knows.
void add_base(FakeRegistry& fake, const std::string& repository, const Base& kind) {
  const std::string first(kind.bytes, 'f'), second = "second";
  Json layers = Json::array();
  for (const std::string& bytes : {first, second}) {
    layers.push_back({{"mediaType", kind.docker ? kDockerLayer : kOciLayer},
                      {"digest", fake.add_blob(repository, bytes)},
                      {"size", bytes.size()},
                      {"x-layer", 1}});
  }
  if (kind.foreign) {
    layers[0]["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    layers[0]["urls"] = {"https://example.com/layer"};
    layers[0]["digest"] = digest_of("nowhere");
  }
  const std::string config =
      dump_json({{"os", "linux"},
                 {"architecture", "amd64"},
                 {"x-config", {1, 2}},
                 {"config", {{"Env", {"PATH=/bin", "A=1"}}, {"Cmd", {"sh"}}, {"x-inner", true}}},
                 {"rootfs", {{"type", "layers"}, {"diff_ids", {digest_of("1"), digest_of("2")}}}},
                 {"history", {{{"created_by", "base"}}}}});
  const Json manifest = {{"schemaVersion", 2},
                         {"mediaType", kind.docker ? kDockerManifest : kOciManifest},
                         {"config",
                          {{"mediaType", kind.docker ? kDockerConfig : kOciConfig},
                           {"digest", fake.add_blob(repository, config)},
                           {"size", config.size()}}},
                         {"layers", layers},
                         {"annotations", {{"who", "me"}}}};
  const std::string text = manifest.dump();
  const std::string digest = fake.add_manifest(repository, "one", manifest["mediaType"], text);
  const Json index = {
      {"schemaVersion", 2},
      {"mediaType", kind.docker ? kDockerIndex : kOciIndex},
      {"manifests",
       {{{"digest", digest_of("a")},
         {"size", 1},
         {"platform", {{"os", "unknown"}, {"architecture", "unknown"}}}},
        {{"digest", digest_of("b")},
         {"size", 1},
         {"platform", {{"os", "linux"}, {"architecture", "arm64"}, {"variant", "v8"}}}},
        {{"digest", digest},
         {"size", text.size()},
         {"platform", {{"os", "linux"}, {"architecture", "amd64"}}}}}}};
  fake.add_manifest(repository, "latest", index["mediaType"], index.dump());
}

std::shared_ptr<Registry> open_registry(const FakeRegistry& fake, const std::string& repository) {
  RegistryOptions options;
  options.plain_http = true;
  return std::make_shared<Registry>(fake.reference(repository), options, CredentialPlaces{});
}

LayerFile some_layer(const TemporaryDirectory& folder, const std::string& content = "print()\n") {
  return write_layer({{"adaptdl-app/main.py", TarEntry::Kind::bytes, content}},
                     folder.file("layer-" + digest_of(content).substr(7, 8)));
}

PushedImage push_on_base(FakeRegistry& from, FakeRegistry& to, const LayerFile& layer) {
  Image image = pull_image(open_registry(from, "base"), from.reference("base"), kPlatform);
  append_layer(image, layer, "adaptdl: the project");
  settings(image)["WorkingDir"] = "/adaptdl-app";
  set_environment(image, "A", "2");
  set_environment(image, "B", "3");
  note_setting(image, "adaptdl: settings");
  return push_image(image, *open_registry(to, "app"), to.reference("app", ""));
}

}  // namespace

TEST_CASE("a layer on a base keeps what the base is, in its own types") {
  for (const bool docker : {false, true}) {
    CAPTURE(docker);
    FakeRegistry fake;
    TemporaryDirectory folder;
    add_base(fake, "base", {.docker = docker});
    const LayerFile layer = some_layer(folder);
    const PushedImage pushed = push_on_base(fake, fake, layer);
    const Manifest stored = fake.manifest("app", pushed.reference.tag);
    CHECK(stored.digest == pushed.reference.digest);
    CHECK(stored.media_type == (docker ? kDockerManifest : kOciManifest));
    const Json manifest = Json::parse(stored.text);
    CHECK(manifest["annotations"]["who"] == "me");
    REQUIRE(manifest["layers"].size() == 3);
    CHECK(manifest["layers"][1]["x-layer"] == 1);
    CHECK(manifest["layers"][2] == Json({{"mediaType", docker ? kDockerLayer : kOciLayer},
                                         {"digest", layer.digest},
                                         {"size", layer.size}}));
    CHECK(manifest["config"]["mediaType"] == (docker ? kDockerConfig : kOciConfig));
    const Json config =
        Json::parse(fake.blobs("app").at(manifest["config"]["digest"].get<std::string>()));
    CHECK(config["x-config"] == Json({1, 2}));
    CHECK(config["config"] == Json({{"Env", {"PATH=/bin", "A=2", "B=3"}},
                                    {"Cmd", {"sh"}},
                                    {"WorkingDir", "/adaptdl-app"},
                                    {"x-inner", true}}));
    CHECK(config["rootfs"]["diff_ids"] == Json({digest_of("1"), digest_of("2"), layer.diff_id}));
    CHECK(config["history"].size() == 3);
    CHECK(config["history"][2]["empty_layer"] == true);
    CHECK(fake.problems().empty());
  }
}

TEST_CASE("what a registry has is never sent again, and its own base is mounted") {
  FakeRegistry fake;
  TemporaryDirectory folder;
  add_base(fake, "base", {});
  const LayerFile layer = some_layer(folder);
  const PushedImage first = push_on_base(fake, fake, layer);
  CHECK(first.bytes_sent > layer.size);
  CHECK(first.bytes_sent < layer.size + 2000);
  CHECK(fake.count("GET /v2/base/blobs/") == 1);  // the config
  const PushedImage again = push_on_base(fake, fake, layer);
  CHECK(again.bytes_sent == 0);
  CHECK(again.reference == first.reference);
  CHECK(first.reference.tag.starts_with("adaptdl-"));
  const PushedImage other = push_on_base(fake, fake, some_layer(folder, "other"));
  CHECK(other.reference.tag != first.reference.tag);
  CHECK(fake.manifest("app", first.reference.tag).digest == first.reference.digest);
}

TEST_CASE("a base of another registry passes through once; mounting refused, it is sent") {
  TemporaryDirectory folder;
  FakeRegistry from, to, same({.mounts = false});
  add_base(from, "base", {});
  add_base(same, "base", {});
  const LayerFile layer = some_layer(folder);
  CHECK(push_on_base(from, to, layer).bytes_sent > 100'000 + layer.size);
  CHECK(push_on_base(from, to, layer).bytes_sent == 0);
  CHECK(from.count("GET /v2/base/blobs/") == 4);  // both configs, and each layer once
  CHECK(push_on_base(same, same, layer).bytes_sent > 100'000);
  CHECK(to.problems().empty());
  CHECK(same.problems().empty());
}

TEST_CASE("foreign layers are named and not sent, nor written") {
  FakeRegistry fake;
  TemporaryDirectory folder;
  add_base(fake, "base", {.docker = true, .foreign = true});
  const PushedImage pushed = push_on_base(fake, fake, some_layer(folder));
  CHECK(Json::parse(fake.manifest("app", pushed.reference.tag).text)["layers"][0]["urls"].size() ==
        1);
  const Image image = pull_image(open_registry(fake, "base"), fake.reference("base"), kPlatform);
  CHECK_ERROR(write_image_tar(image, folder.file("x.tar"), fake.reference("app")),
              "only its vendor may distribute");
  CHECK_FALSE(path_exists(folder.file("x.tar")));
}

TEST_CASE("an image of nothing is whole") {
  FakeRegistry fake;
  TemporaryDirectory folder;
  Image image = empty_image({"linux", "arm64", "v8"});
  append_layer(image, some_layer(folder), "adaptdl");
  settings(image)["Entrypoint"] = {"/adaptdl-app/adaptdl"};
  const PushedImage pushed =
      push_image(image, *open_registry(fake, "app"), fake.reference("app", "v1"));
  CHECK(pushed.reference.tag == "v1");
  const Image back =
      pull_image(open_registry(fake, "app"), fake.reference("app", "v1"), {"linux", "arm64", ""});
  CHECK(back.config["variant"] == "v8");
  CHECK(back.config["created"] == "1970-01-01T00:00:00Z");
  CHECK_ERROR(pull_image(open_registry(fake, "app"), fake.reference("app", "v1"), kPlatform),
              "is for linux/arm64/v8, not linux/amd64");
  CHECK(fake.problems().empty());
}

TEST_CASE("an archive holds all that it names") {
  FakeRegistry fake;
  TemporaryDirectory folder;
  add_base(fake, "base", {});
  Image image = pull_image(open_registry(fake, "base"), fake.reference("base"), kPlatform);
  append_layer(image, some_layer(folder), "adaptdl");
  append_layer(image, some_layer(folder), "adaptdl");
  write_image_tar(image, folder.file("x.tar"), fake.reference("app", "v1"));
  const std::string tar = read_file(folder.file("x.tar"), 10u << 20);
  const FinishedImage finished = finish_image(image);
  CHECK(contains(tar, finished.manifest));
  CHECK(contains(tar, finished.config));
  CHECK(contains(tar, "blobs/sha256/" + finished.digest.substr(7)));
  CHECK(contains(tar, "\"io.containerd.image.name\":\"" + fake.name() + "/app:v1\""));
  CHECK(contains(tar, std::string(100'000, 'f')));
  CHECK_FALSE(path_exists(folder.file("x.tar.part")));
}

TEST_CASE("an archive goes into a FIFO or device, and through a symlink, which stay") {
  TemporaryDirectory folder;
  Image image = empty_image(kPlatform);
  append_layer(image, some_layer(folder), "adaptdl");
  const auto write = [&](const std::string& name) {
    write_image_tar(image, folder.file(name), {"localhost", "app", "v1", ""});
  };
  const auto type = [&](const std::string& name) {
    struct stat status {};
    REQUIRE(lstat(folder.file(name).c_str(), &status) == 0);
    return status.st_mode & S_IFMT;
  };
  write("x.tar");
  const std::string tar = read_file(folder.file("x.tar"), 1u << 20);
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  const Fd reader = open_file(folder.file("pipe"), O_RDONLY | O_NONBLOCK);
  REQUIRE(tar.size() < 60'000);  // fits into the FIFO while nobody reads
  write("pipe");
  CHECK(type("pipe") == S_IFIFO);
  std::string got(tar.size() + 1, '\0');
  CHECK(::read(reader.get(), got.data(), got.size()) == static_cast<ssize_t>(tar.size()));
  CHECK(got.substr(0, tar.size()) == tar);

  for (const char* target : {"/dev/null", "made.tar", "x.tar"}) {
    CAPTURE(target);
    const std::string name = "to-" + std::string(file_name(target));
    REQUIRE(symlink(target, folder.file(name).c_str()) == 0);
    write(name);
    CHECK(type(name) == S_IFLNK);
    CHECK_FALSE(path_exists(folder.file(name + ".part")));
  }
  CHECK(read_file(folder.file("made.tar"), 1u << 20) == tar);
  CHECK(type("x.tar") == S_IFREG);
  REQUIRE(symlink("/dev/full", folder.file("full").c_str()) == 0);
  CHECK_ERROR(write("full"), "full: ");
  CHECK_ERROR(write("."), "Is a directory");
  CHECK(archive_files("").empty());
  CHECK(archive_files(folder.file("to-made.tar")) ==
        std::vector<std::string>{folder.file("made.tar"), folder.file("made.tar.part")});
}

// An archive with these files, the entry "L" a link to the layer.
void write_saved(const std::string& path, const Json& manifest, const Json& config,
                 const std::string& layer) {
  std::string bytes;
  TarWriter tar([&](std::string_view more) { bytes += more; });
  tar.add({"manifest.json", TarEntry::Kind::bytes, manifest.dump()}, 0);
  tar.add({"c.json", TarEntry::Kind::bytes, config.dump()}, 0);
  tar.add({"1", TarEntry::Kind::folder}, 0);
  tar.add({"1/layer.tar", TarEntry::Kind::bytes, layer}, 0);
  tar.add({"L", TarEntry::Kind::link, "1/layer.tar"}, 0);
  tar.close();
  replace_file(path, bytes);
}

TEST_CASE("what tools save is an image again") {
  FakeRegistry fake;
  TemporaryDirectory folder;
  Image image = empty_image(kPlatform);
  append_layer(image, some_layer(folder), "adaptdl");
  settings(image)["Cmd"] = {"sh"};
  write_image_tar(image, folder.file("own.tar"), fake.reference("app", "v1"));
  make_directories(folder.file("own"));
  const Image own = read_saved_image(folder.file("own.tar"), folder.file("own"));
  CHECK(own.config == image.config);
  CHECK(own.manifest["layers"][0]["digest"] == image.manifest["layers"][0]["digest"]);

  // As docker writes them: a layer that is not packed, twice.
  const std::string digest = digest_of("layer");
  const Json config = {{"os", "linux"},
                       {"architecture", "amd64"},
                       {"rootfs", {{"type", "layers"}, {"diff_ids", {digest, digest}}}}};
  const Json entry = {{"Config", "c.json"}, {"Layers", {"1/layer.tar", "L"}}};
  write_saved(folder.file("x.tar"), Json::array({entry}), config, "layer");
  make_directories(folder.file("x"));
  const Image saved = read_saved_image(folder.file("x.tar"), folder.file("x"));
  CHECK(saved.manifest["layers"][1]["mediaType"] == "application/vnd.oci.image.layer.v1.tar");
  const PushedImage pushed = push_image(saved, *open_registry(fake, "app"), fake.reference("app"));
  CHECK(fake.blobs("app").at(digest) == "layer");
  CHECK(fake.manifest("app", pushed.reference.tag).digest == pushed.reference.digest);
  CHECK(fake.problems().empty());

  int number = 0;
  const auto refused = [&](const Json& manifest, const Json& with, const char* why) {
    CAPTURE(manifest);
    write_saved(folder.file("bad.tar"), manifest, with, "layer");
    const std::string to = folder.file("bad" + std::to_string(++number));
    make_directories(to);
    CHECK_ERROR(read_saved_image(folder.file("bad.tar"), to), why);
  };
  refused(Json::object(), config, "expected one");
  refused(Json::array({entry, entry}), config, "expected one");
  refused(Json::array({"text"}), config, "Config");
  refused(Json::array({{{"Config", "../c.json"}, {"Layers", Json::array()}}}), config,
          "is not in the archive");
  refused(Json::array({{{"Config", "/etc/passwd"}, {"Layers", Json::array()}}}), config,
          "is not in the archive");
  refused(Json::array({{{"Config", "c.json"}, {"Layers", {"1/none"}}}}), config,
          "is not in the archive");
  refused(Json::array({{{"Config", "c.json"}, {"Layers", {"1"}}}}), config, "1");
  refused(Json::array({{{"Config", "c.json"}, {"Layers", {"L"}}}}), config, "for 2 layers");
  refused(Json::array({entry}), Json::object(), "rootfs");
}

TEST_CASE("platforms are chosen, or what there is is told") {
  FakeRegistry fake;
  add_base(fake, "base", {});
  const std::string index = fake.manifest("base", "latest").text;
  CHECK(choose_manifest(index, {"linux", "arm64", ""}, "x") == digest_of("b"));
  CHECK(choose_manifest(index, {"linux", "arm64", "v8"}, "x") == digest_of("b"));
  CHECK_ERROR(choose_manifest(index, {"linux", "riscv64", ""}, "x"),
              "x: no image for linux/riscv64; available: linux/arm64/v8, linux/amd64");
  const auto chosen = [](const std::vector<const char*>& there, const Platform& wanted) {
    Json listed;
    for (const char* text : there) {
      const Platform platform = parse_platform(text, "x");
      listed["manifests"].push_back({{"digest", digest_of(text)},
                                     {"platform",
                                      {{"os", platform.os},
                                       {"architecture", platform.architecture},
                                       {"variant", platform.variant}}}});
    }
    const std::string digest = choose_manifest(listed.dump(), wanted, "x");
    for (const char* text : there) {
      if (digest == digest_of(text)) return std::string(text);
    }
    return digest;
  };
  const char *const any = "linux/amd64", *const v1 = "linux/amd64/v1", *const v2 = "linux/amd64/v2",
                    *const v3 = "linux/amd64/v3";
  CHECK(chosen({v3, any, v1}, kPlatform) == any);
  CHECK(chosen({v3, v1}, kPlatform) == v1);
  CHECK(chosen({v3, v2}, kPlatform) == v3);  // only those are there
  CHECK(chosen({any, v3}, {"linux", "amd64", "v3"}) == v3);
  CHECK(chosen({v2, any}, {"linux", "amd64", "v3"}) == any);
  CHECK(chosen({"linux/arm64/v9", "linux/arm64"}, {"linux", "arm64", "v8"}) == "linux/arm64");
  CHECK(chosen({"linux/arm/v5", "linux/arm/v7"}, {"linux", "arm", ""}) == "linux/arm/v7");
  CHECK(to_string(parse_platform("arm64", "x")) == "linux/arm64");
  CHECK(to_string(parse_platform("linux/arm64/v8", "x")) == "linux/arm64/v8");
  for (const char* text : {"", "a/", "a/b/c/d", "/a"}) {
    CAPTURE(text);
    CHECK_ERROR(parse_platform(text, "--platform"), "--platform:");
  }
}

TEST_CASE("manifests and configs that are none are refused") {
  const std::string digest = digest_of("x");
  const auto read = [](const std::string& manifest, const std::string& config) {
    read_image({kOciManifest, "", manifest}, config, "base");
  };
  const std::string none =
      R"({"config":{"mediaType":"m","digest":")" + digest + R"(","size":1},"layers":[]})";
  read(none, R"({"rootfs":{"diff_ids":[]}})");
  CHECK_ERROR(read("[]", "{}"), "base: manifest");
  CHECK_ERROR(
      read(
          R"({"schemaVersion":1,"mediaType":"application/vnd.docker.distribution.manifest.v1+json"})",
          "{}"),
      "rebuild the image");
  CHECK_ERROR(read(R"({"layers":[{"digest":"md5:1"}]})", "{}"), "only sha256");
  CHECK_ERROR(read(none, "{}"), "rootfs");
  CHECK_ERROR(read(none, R"({"rootfs":{"diff_ids":["a"]}})"),
              "is for 1 layers, but the image has 0");
  CHECK_ERROR(read(none, R"({"rootfs":{"diff_ids":[]},"config":{"Env":[1]}})"), "Env");
}

}  // namespace adaptdl::oci::image_test
