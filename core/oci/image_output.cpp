#include "core/oci/image_output.h"

#include <array>
#include <climits>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/temporary.h"
#include "core/oci/media_types.h"
#include "core/oci/tar.h"
#include "core/oci/untar.h"

namespace adaptdl::oci {
namespace {

constexpr size_t kTagDigits = 20;     // of the digest: enough to be unique
constexpr int kMaxArchiveLinks = 40;  // as in Linux

// A layer of the image's manifest.
struct Layer {
  std::string digest;
  uint64_t size;
  bool foreign;
};

std::vector<Layer> layers_of(const Image& image) {
  std::vector<Layer> layers;
  for (const Json& layer : image.manifest.at("layers")) {
    layers.push_back({layer.at("digest").get<std::string>(), layer.at("size").get<uint64_t>(),
                      is_foreign_layer(layer.at("mediaType").get<std::string>())});
  }
  return layers;
}

// The layer's local file; downloads it into `file` if it is not local.
std::string local_file(const Image& image, const Layer& layer, const std::string& file) {
  const auto here = image.files.find(layer.digest);
  if (here != image.files.end()) return here->second;
  ADAPTDL_CHECK(image.source != nullptr);
  image.source->download(image.source_repository, layer.digest, layer.size, file);
  return file;
}

void push_layer(const Image& image, const Layer& layer, Registry& to, const std::string& repository,
                const std::string& file) {
  const bool here = image.files.contains(layer.digest);
  if (!here) {
    if (to.has_blob(repository, layer.digest)) return;
    const bool near =
        image.source && image.source->name() == to.name() && image.source_repository != repository;
    if (near && to.mount(repository, layer.digest, image.source_repository)) return;
  }
  to.upload(repository, {layer.digest, layer.size, local_file(image, layer, file)});
}

std::string blob_name(const std::string& digest) {
  return "blobs/sha256/" + digest.substr(digest.find(':') + 1);
}

// Where the symlinks at the path lead, whether or not that exists.
std::string end_of_links(std::string path) {
  std::array<char, PATH_MAX> target;
  for (int links = 0; links < kMaxArchiveLinks; ++links) {
    const ssize_t size = readlink(path.c_str(), target.data(), target.size());
    if (size < 0) break;
    path = join_path(parent_directory(path), {target.data(), static_cast<size_t>(size)});
  }
  return path;
}

// A file that commit() replaces as a whole; or a device, FIFO or similar, which is written to.
class ArchiveFile {
 public:
  explicit ArchiveFile(const std::string& path) : path_(path) {
    const std::string end = end_of_links(path);
    struct stat status {};
    // /dev/stdout may lead to a file that has no name any more.
    if (stat(path.c_str(), &status) == 0 && (!S_ISREG(status.st_mode) || !path_exists(end))) {
      special_ = open_file(path, O_WRONLY);
      return;
    }
    noted_.emplace(part_path(end));
    file_.emplace(end);
  }

  void write(std::string_view bytes) {
    if (file_) return file_->write(bytes);
    write_all(special_.get(), bytes, path_);
  }
  void commit() {
    if (file_) file_->commit();
  }

 private:
  // Removed also at the end of a process that a signal ends.
  struct Noted {
    std::string path;
    explicit Noted(std::string part) : path(std::move(part)) { note_temporary_path(path); }
    ~Noted() { forget_temporary_path(path); }
  };
  std::string path_;
  Fd special_;
  std::optional<Noted> noted_;  // before the file: it outlives it
  std::optional<DurableFile> file_;
};

}  // namespace

std::vector<std::string> archive_files(const std::string& path) {
  if (path.empty()) return {};
  const std::string file = end_of_links(path);
  return {file, part_path(file)};
}

PushedImage push_image(const Image& image, Registry& to, const Reference& where) {
  const uint64_t before = to.bytes_sent();
  const FinishedImage finished = finish_image(image);
  const TemporaryDirectory folder("adaptdl-image");
  for (const Layer& layer : layers_of(image)) {
    const std::string file = folder.file("layer");
    if (!layer.foreign) push_layer(image, layer, to, where.repository, file);
    remove_tree(file);
  }
  to.upload(where.repository, blob_of(finished.config));
  PushedImage pushed{where, 0};
  pushed.reference.digest = finished.digest;
  if (where.tag.empty()) {
    const size_t digits = finished.digest.find(':') + 1;
    pushed.reference.tag = "adaptdl-" + finished.digest.substr(digits, kTagDigits);
  }
  to.put_manifest(where.repository, pushed.reference.tag, image.media_type, finished.manifest);
  pushed.bytes_sent = to.bytes_sent() - before;
  return pushed;
}

void copy_archive(const std::string& from, const std::string& path) {
  const Fd source = open_file(from, O_RDONLY);
  const TarSource read = read_descriptor(source.get(), from);
  ArchiveFile file(path);
  for (std::string_view piece = read(); !piece.empty(); piece = read()) file.write(piece);
  file.commit();
}

void write_image_tar(const Image& image, const std::string& path, const Reference& name) {
  const FinishedImage finished = finish_image(image);
  const Json manifest = parse_json(finished.manifest, "the manifest");
  const std::string config_digest = manifest.at("config").at("digest");
  Json files = Json::array();
  for (const Layer& layer : layers_of(image)) {
    if (layer.foreign) {
      fail("{}: only its vendor may distribute the base's layer {}; push the image instead", path,
           layer.digest);
    }
    files.push_back(blob_name(layer.digest));
  }
  const std::string full = name.registry + "/" + name.repository + ":" + name.tag;
  const Json index = {{"schemaVersion", 2},
                      {"mediaType", kOciIndex},
                      {"manifests",
                       {{{"mediaType", image.media_type},
                         {"digest", finished.digest},
                         {"size", finished.manifest.size()},
                         {"annotations",
                          {{"io.containerd.image.name", full},
                           {"org.opencontainers.image.ref.name", name.tag}}}}}}};
  const Json saved = Json::array(
      {{{"Config", blob_name(config_digest)}, {"RepoTags", {full}}, {"Layers", files}}});

  ArchiveFile file(path);
  TarWriter tar([&](std::string_view bytes) { file.write(bytes); });
  const int64_t time = source_date_epoch();
  const auto add = [&](const std::string& entry, const std::string& bytes) {
    tar.add({entry, TarEntry::Kind::bytes, bytes}, time);
  };
  add("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  add("index.json", dump_json(index));
  add("manifest.json", dump_json(saved));
  add(blob_name(finished.digest), finished.manifest);
  add(blob_name(config_digest), finished.config);
  const TemporaryDirectory folder("adaptdl-image");
  std::map<std::string, bool> written;
  for (const Layer& layer : layers_of(image)) {
    if (std::exchange(written[layer.digest], true)) continue;
    const std::string fetched = folder.file("layer");
    tar.add({blob_name(layer.digest), TarEntry::Kind::file, local_file(image, layer, fetched)},
            time);
    remove_tree(fetched);
  }
  tar.close();
  file.commit();
}

}  // namespace adaptdl::oci
