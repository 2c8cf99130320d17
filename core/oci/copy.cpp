#include "core/oci/copy.h"

#include <algorithm>
#include <array>
#include <fnmatch.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/oci/added_tar.h"

namespace adaptdl::oci {
namespace {

// Symlinks in most images; a folder of that name in a layer would replace them.
constexpr std::array kLikelyLinks = {"/bin",   "/sbin",   "/lib",     "/lib32",
                                     "/lib64", "/libx32", "/var/run", "/var/lock"};
// Folders in most images: a copy to one of them goes into it.
constexpr std::array kLikelyFolders = {"/boot",
                                       "/dev",
                                       "/etc",
                                       "/home",
                                       "/media",
                                       "/mnt",
                                       "/opt",
                                       "/proc",
                                       "/root",
                                       "/run",
                                       "/srv",
                                       "/sys",
                                       "/tmp",
                                       "/usr/bin",
                                       "/usr/include",
                                       "/usr/lib",
                                       "/usr/local/bin",
                                       "/usr/local/etc",
                                       "/usr/local/include",
                                       "/usr/local/lib",
                                       "/usr/local/sbin",
                                       "/usr/local/share",
                                       "/usr/local/src",
                                       "/usr/sbin",
                                       "/usr/share",
                                       "/usr/src",
                                       "/var/cache",
                                       "/var/lib",
                                       "/var/log",
                                       "/var/opt",
                                       "/var/spool",
                                       "/var/tmp"};

// Whether an unknown destination looks like a file, although it may be a folder: it has the
// source's name (with or without ".sh"), it has a dot (but not as in "x.d", a folder), or it is in
// a folder of programs or configuration fragments.
bool looks_like_file(const std::string& place, const std::string& source) {
  const std::string name = file_name(place), above = file_name(parent_directory(place));
  if (name == source || name + ".sh" == source) return true;
  if (above == "bin" || above == "sbin" || above.ends_with(".d")) return true;
  return name.find('.') != std::string::npos && !name.ends_with(".d");
}

class Copy {
 public:
  Copy(const CopyRequest& request, const BuildContext& context, KnownFolders& folders)
      : request_(request), context_(context), folders_(folders) {}

  std::vector<TarEntry> entries() {
    std::vector<Source> sources;
    for (const std::string& source : request_.sources) find(source, sources);
    into_ = request_.into || folders_.contains(request_.place) || request_.sources.size() > 1 ||
            sources.size() > 1;
    for (const Source& source : sources) add(source);
    for (const TarEntry& entry : entries_) {
      if (!folders_.from_nothing()) check_link(entry.path);
    }
    for (const TarEntry& entry : entries_) {
      const bool is_folder = entry.kind == TarEntry::Kind::folder;
      folders_.add(is_folder ? entry.path : parent_directory(entry.path));
    }
    return std::move(entries_);
  }

 private:
  // For a symlink: its target, under the symlink's name. Null is the context's folder itself.
  struct Source {
    const ContextFile* file;
    std::string name;
  };

  const ContextFile* file_at(const std::string& path) const {
    const auto found = std::find_if(context_.files.begin(), context_.files.end(),
                                    [&](const ContextFile& file) { return file.path == path; });
    return found == context_.files.end() ? nullptr : &*found;
  }

  void find(const std::string& source, std::vector<Source>& found) const {
    if (source.starts_with("http://") || source.starts_with("https://") ||
        source.starts_with("git@") || source.starts_with("<<")) {
      fail("{} is not a file in the folder; {}", source, kInstead);
    }
    const std::string path = absolute_path(source, "/").substr(1);
    if (follow(path, found)) return;
    // Symlinks are followed up to the first name with wildcards, and at the end.
    const size_t name = path.rfind('/', path.find_first_of("*?[\\")) + 1;
    const std::string above = follow_links(context_, path.substr(0, name > 0 ? name - 1 : 0));
    const std::string start = above.empty() ? "" : above + "/";
    const std::string pattern = path.substr(name);
    const size_t before = found.size();
    for (const ContextFile& file : context_.files) {
      if (!file.path.starts_with(start)) continue;
      if (fnmatch(pattern.c_str(), file.path.c_str() + start.size(), FNM_PATHNAME) != 0) continue;
      if (follow(file.path, found)) continue;
      fail("{} is a symlink to {}, which is not in {} or is excluded by .dockerignore", file.path,
           file.target, context_.folder);
    }
    if (found.size() == before) {
      fail("{} is not in {} or is excluded by .dockerignore", source, context_.folder);
    }
  }

  // False if the path does not exist.
  bool follow(const std::string& path, std::vector<Source>& found) const {
    const std::string end = follow_links(context_, path);
    const ContextFile* file = file_at(end);
    if (file == nullptr && !end.empty()) return false;
    found.push_back({file, file_name(path)});
    return true;
  }

  void add(const Source& source) {
    const std::string& place = request_.place;
    const ContextFile* file = source.file;
    if (file != nullptr && file->kind != ContextFile::Kind::folder) {
      if (request_.unpacks && is_tar_name(file->path)) return unpack(*file);
      if (!into_) check_file(source.name);
      entries_.push_back(entry_of(context_, *file, into_ ? join_path(place, source.name) : place));
      return;
    }
    const std::string start = file == nullptr ? "" : file->path + "/";
    add_place();
    for (const ContextFile& inner : context_.files) {
      if (!inner.path.starts_with(start)) continue;
      entries_.push_back(
          entry_of(context_, inner, join_path(place, inner.path.substr(start.size()))));
    }
  }

  // A folder of the base keeps its owner and mode. Any other folder gets an entry: docker creates
  // missing folders above an entry with access for root only.
  void add_place() {
    if (request_.place == "/" || folders_.base_has(request_.place)) return;
    entries_.push_back({request_.place, TarEntry::Kind::folder, "", 0755});
  }

  void unpack(const ContextFile& source) {
    const std::string folder = fmt::format("{}-{}", request_.unpacked, entries_.size());
    add_place();
    try {
      for (TarEntry& entry :
           unpack_tar(join_path(context_.folder, source.path), folder, request_.place)) {
        entries_.push_back(std::move(entry));
      }
    } catch (const Error& error) {
      fail("cannot unpack {} here: {}; COPY its files, or {}", source.path, error.what(), kInstead);
    }
  }

  void check_file(const std::string& source) const {
    const std::string& place = request_.place;
    if (folders_.from_nothing()) return;
    check_link(place);
    if (looks_like_file(place, source)) return;
    fail(
        "{} may be a folder of the base image, which the file {} would replace; write {}/ to copy "
        "into the folder, rename the source to {} to create that file, or {}",
        place, source, place, file_name(place), kInstead);
  }

  static void check_link(const std::string& path) {
    for (const char* link : kLikelyLinks) {
      if (path != link && !path.starts_with(std::string(link) + "/")) continue;
      fail(
          "{} is a symlink in most images, which this layer would replace; copy to /usr{} or "
          "/usr/local instead, or {}",
          link, link, kInstead);
    }
  }

  const CopyRequest& request_;
  const BuildContext& context_;
  KnownFolders& folders_;
  bool into_ = false;
  std::vector<TarEntry> entries_;
};

}  // namespace

KnownFolders::KnownFolders(const Image& base) : from_nothing_(base.manifest.at("layers").empty()) {
  for (const char* folder : kLikelyFolders) add(folder);
  const Json inner = json_get_or<Json>(base.config, "config", "config", Json::object());
  std::vector<std::string> named = split(environment(base, "PATH"), ':');
  named.push_back(environment(base, "HOME"));
  named.push_back(json_get_or<std::string>(inner, "WorkingDir", "config", ""));
  for (const std::string& folder : named) {
    if (folder.starts_with('/')) add(absolute_path(folder));
  }
  if (!from_nothing_) of_base_ = folders_;
}

void KnownFolders::add(const std::string& folder) {
  for (std::string path = folder; folders_.insert(path).second && path != "/";) {
    path = parent_directory(path);
  }
}

TarEntry entry_of(const BuildContext& context, const ContextFile& file, const std::string& place) {
  const bool is_folder = file.kind == ContextFile::Kind::folder;
  TarEntry entry{place, TarEntry::Kind::file, join_path(context.folder, file.path)};
  entry.mode = is_folder || (file.mode & 0100) != 0 ? 0755 : 0644;
  if (is_folder) {
    entry.kind = TarEntry::Kind::folder;
  } else if (file.kind == ContextFile::Kind::link) {
    entry.kind = TarEntry::Kind::link;
    entry.source = file.target;
  }
  return entry;
}

std::vector<TarEntry> copied_entries(const CopyRequest& request, const BuildContext& context,
                                     KnownFolders& folders) {
  return Copy(request, context, folders).entries();
}

}  // namespace adaptdl::oci
