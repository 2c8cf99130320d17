#include "core/oci/build.h"

#include <algorithm>
#include <array>
#include <fnmatch.h>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/oci/added_tar.h"

namespace adaptdl::oci {
namespace {

constexpr const char* kInstead = "install docker, podman or buildctl, which can";
constexpr std::array kBuiltHere = {"ADD",    "ARG",  "CMD",   "COPY", "ENTRYPOINT", "ENV",
                                   "EXPOSE", "FROM", "LABEL", "USER", "MAINTAINER", "WORKDIR"};

// Links in most images, which a folder of that name in a layer would replace.
constexpr std::array kLikelyLinks = {"/bin",   "/sbin",   "/lib",     "/lib32",
                                     "/lib64", "/libx32", "/var/run", "/var/lock"};
// Folders in most images: a copy to there goes into them.
constexpr std::array kLikelyFolders = {"/",     "/etc", "/home", "/media", "/mnt", "/opt",
                                       "/root", "/srv", "/tmp",  "/usr",   "/var"};

// A context's entry has one mode for all who build it, whatever their umask: read by all, written
// by the owner, executed if the owner may.
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

class Builder {
 public:
  Builder(const Dockerfile& file, const BuildContext& context, const BuildOptions& options)
      : file_(file), context_(context), options_(options) {}

  Image build() {
    for (const Instruction& instruction : file_.instructions) {
      at_ = &instruction;
      step();
    }
    if (!image_) fail("{}: lacks FROM", file_.path);
    return *image_;
  }

 private:
  void step() {
    const std::string& name = at_->name;
    if (name == "ARG") return argument();
    if (name == "FROM") return from();
    if (!image_) fail_at(file_, *at_, "FROM must come first");
    if (name == "COPY" || name == "ADD") return copy();
    Json& config = settings(*image_);
    if (name == "ENV") {
      for (const auto& [key, value] : pairs()) set_environment(*image_, key, value);
    } else if (name == "LABEL") {
      for (const auto& [key, value] : pairs()) config["Labels"][key] = value;
    } else if (name == "WORKDIR") {
      config["WorkingDir"] = placed(one_word());
      folders_.insert(config["WorkingDir"].get<std::string>());
    } else if (name == "USER") {
      config["User"] = one_word();
    } else if (name == "EXPOSE") {
      for (const std::string& port : words()) {
        config["ExposedPorts"][port.find('/') == std::string::npos ? port + "/tcp" : port] =
            Json::object();
      }
    } else if (name == "CMD") {
      config["Cmd"] = program();
      has_command_ = true;
    } else if (name == "ENTRYPOINT") {
      config["Entrypoint"] = program();
      if (!has_command_) config.erase("Cmd");  // the base's was for the base's
    } else if (name == "MAINTAINER") {
      image_->config["author"] = at_->text;
    } else {
      fail_at(file_, *at_, fmt::format("{} cannot be done here; {}", name, kInstead));
    }
    note_setting(*image_, name + " " + at_->text);
  }

  std::optional<std::string> value_of(const std::string& name) const {
    if (image_) {
      const std::string set = environment(*image_, name);
      if (!set.empty()) return set;
    }
    const auto found = arguments_.find(name);
    return found == arguments_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string where() const { return fmt::format("{}:{}", file_.path, at_->line); }
  std::vector<std::string> words_of(const std::string& text) const {
    const auto lookup = [this](const std::string& name) -> std::optional<std::string> {
      const auto value = value_of(name);
      return value ? std::optional(escaped(*value, file_.escape)) : std::nullopt;
    };
    return split_words(expand(text, file_.escape, lookup, where()), file_.escape, where());
  }
  std::vector<std::string> words() const { return words_of(at_->text); }
  std::string one_word() const {
    const std::vector<std::string> all = words();
    if (all.size() != 1) fail_at(file_, *at_, at_->name + " takes one argument");
    return all[0];
  }
  std::vector<std::pair<std::string, std::string>> pairs() const {
    const std::vector<std::string> all = words();
    std::vector<std::pair<std::string, std::string>> result;
    if (!all.empty() && all[0].find('=') == std::string::npos) {  // NAME and all the rest, of old
      const size_t end = at_->text.find_first_of(" \t");
      if (end == std::string::npos) fail_at(file_, *at_, at_->name + " lacks a value");
      const auto lookup = [this](const std::string& name) { return value_of(name); };
      const std::string rest = at_->text.substr(at_->text.find_first_not_of(" \t", end));
      return {{all[0], expand(rest, file_.escape, lookup, where())}};
    }
    for (const std::string& word : all) {
      const size_t sign = word.find('=');
      if (sign == std::string::npos || sign == 0) {
        fail_at(file_, *at_, fmt::format("{} is no NAME=VALUE", word));
      }
      result.emplace_back(word.substr(0, sign), word.substr(sign + 1));
    }
    return result;
  }
  Json program() const {
    std::vector<std::string> list;
    if (json_words(at_->text, list)) return list;
    return {"/bin/sh", "-c", at_->text};
  }

  void argument() {
    for (const std::string& word : words()) {
      const size_t sign = std::min(word.find('='), word.size());
      const std::string name = word.substr(0, sign);
      const auto given = options_.arguments.find(name);
      const auto global = global_.find(name);
      if (given != options_.arguments.end()) {
        arguments_[name] = given->second;
      } else if (sign < word.size()) {
        arguments_[name] = word.substr(sign + 1);
      } else if (image_ && global != global_.end()) {
        arguments_[name] = global->second;
      }
      if (!image_ && arguments_.contains(name)) global_[name] = arguments_[name];
    }
  }

  void from() {
    arguments_ = global_;
    const std::optional<Image> before = std::exchange(image_, std::nullopt);
    if (before && !stage_.empty()) stages_[stage_] = *before;
    const std::vector<std::string> all = words();
    const bool named = all.size() == 3 && (all[1] == "AS" || all[1] == "as");
    if (all.size() != 1 && !named) fail_at(file_, *at_, "FROM looks like FROM IMAGE [AS NAME]");
    Platform platform = options_.platform;
    for (const auto& [name, value] : at_->flags) {
      if (name != "platform") unknown_flag(name);
      const std::vector<std::string> word = words_of(value);
      platform = parse_platform(word.empty() ? "" : word[0], where());
    }
    const auto stage = stages_.find(all[0]);
    if (stage != stages_.end()) {
      image_ = stage->second;
    } else if (all[0] == "scratch") {
      image_ = empty_image(platform);
    } else {
      image_ = options_.base(parse_reference(all[0], where()), platform);
    }
    stage_ = named ? all[2] : "";
    from_nothing_ = image_->manifest["layers"].empty();
    has_command_ = false;
    arguments_.clear();
    folders_.clear();
  }

  [[noreturn]] void unknown_flag(const std::string& name) const {
    fail_at(file_, *at_, fmt::format("{} --{} cannot be done here; {}", at_->name, name, kInstead));
  }

  // A path in the image, against the working directory.
  std::string placed(const std::string& path) const {
    const Json inner = json_get_or<Json>(image_->config, "config", "config", Json::object());
    const auto directory = json_get_or<std::string>(inner, "WorkingDir", "config", "");
    return absolute_path(path.empty() ? "." : path, directory.starts_with('/') ? directory : "/");
  }

  void copy() {
    uint32_t user = 0, group = 0;
    std::optional<mode_t> mode;
    for (const auto& [name, value] : at_->flags) {
      if (name == "chown") {
        owner(words_of(value), user, group);
      } else if (name == "chmod") {
        const auto digits = words_of(value);
        const std::string text = digits.empty() ? "" : digits[0];
        const bool sound = !text.empty() && text.size() <= 4 &&
                           text.find_first_not_of("01234567") == std::string::npos;
        if (!sound) fail_at(file_, *at_, "--chmod takes octal digits here, such as 755");
        mode = static_cast<mode_t>(std::stoul(text, nullptr, 8));
      } else if (name != "link") {
        unknown_flag(name);
      }
    }
    std::vector<std::string> all;
    if (json_words(at_->text, all)) {
      for (std::string& word : all) {
        const auto lookup = [this](const std::string& name) { return value_of(name); };
        word = expand(word, file_.escape, lookup, where());
      }
    } else {
      all = words();
    }
    if (all.size() < 2) fail_at(file_, *at_, at_->name + " takes sources and a destination");
    std::vector<TarEntry> entries = copied(all);
    for (TarEntry& entry : entries) {
      if (mode && entry.kind == TarEntry::Kind::file) entry.mode = *mode;
      entry.user = user;
      entry.group = group;
    }
    const std::string path =
        join_path(options_.layers, fmt::format("layer-{}", image_->manifest["layers"].size()));
    try {
      LayerOptions options;
      options.time = source_date_epoch();
      append_layer(*image_,
                   write_layer(std::move(entries), path + "-" + std::to_string(at_->line), options),
                   at_->name + " " + at_->text);
    } catch (const Error& error) {
      fail_at(file_, *at_, error.what());
    }
  }

  void owner(const std::vector<std::string>& text, uint32_t& user, uint32_t& group) const {
    const std::string both = text.empty() ? "" : text[0];
    const size_t colon = std::min(both.find(':'), both.size());
    const auto number = [&](const std::string& name) -> uint32_t {
      if (name == "root") return 0;
      const auto parsed = try_parse<uint32_t>(name);
      if (!parsed) {
        fail_at(file_, *at_,
                fmt::format("--chown={}: names of users are the image's to know; give "
                            "numbers, or {}",
                            both, kInstead));
      }
      return *parsed;
    };
    user = number(both.substr(0, colon));
    group = colon < both.size() ? number(both.substr(colon + 1)) : user;
  }

  std::vector<TarEntry> copied(const std::vector<std::string>& all) {
    const std::string& last = all.back();
    const std::string place = placed(last);
    const bool likely = std::any_of(kLikelyFolders.begin(), kLikelyFolders.end(),
                                    [&](const char* folder) { return place == folder; });
    std::vector<TarEntry> entries;
    size_t sources = 0;
    bool into = last.ends_with('/') || last == "." || last.ends_with("/.") || likely ||
                folders_.contains(place) || all.size() > 2;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      for (const ContextFile* source : matching(all[i])) {
        if (++sources > 1) into = true;
        add(source, place, into, entries);
      }
    }
    for (const TarEntry& entry : entries) {
      if (!from_nothing_) check_place(entry);
      if (entry.kind == TarEntry::Kind::folder) folders_.insert(entry.path);
    }
    return entries;
  }

  // What a source names; null is the context's folder itself.
  std::vector<const ContextFile*> matching(const std::string& source) {
    if (source.starts_with("http://") || source.starts_with("https://") ||
        source.starts_with("git@") || source.starts_with("<<")) {
      fail_at(file_, *at_, fmt::format("{} is no file of the folder; {}", source, kInstead));
    }
    const std::string path = absolute_path(source, "/").substr(1);
    if (path.empty()) return {nullptr};
    std::vector<const ContextFile*> found;
    for (const ContextFile& file : context_.files) {
      const bool same =
          file.path == path || fnmatch(path.c_str(), file.path.c_str(), FNM_PATHNAME) == 0;
      if (same) found.push_back(&file);
    }
    if (found.empty()) {
      fail_at(
          file_, *at_,
          fmt::format("{} is not in {}, or .dockerignore leaves it out", source, context_.folder));
    }
    return found;
  }

  void add(const ContextFile* source, const std::string& place, bool into,
           std::vector<TarEntry>& entries) {
    if (source != nullptr && source->kind != ContextFile::Kind::folder) {
      if (at_->name == "ADD" && source->kind == ContextFile::Kind::file &&
          is_tar_name(source->path)) {
        return unpack(*source, place, entries);
      }
      entries.push_back(
          entry_of(context_, *source, into ? join_path(place, file_name(source->path)) : place));
      return;
    }
    const std::string start = source == nullptr ? "" : source->path + "/";
    if (place != "/") entries.push_back({place, TarEntry::Kind::folder, "", 0755});
    for (const ContextFile& file : context_.files) {
      if (!file.path.starts_with(start)) continue;
      entries.push_back(entry_of(context_, file, join_path(place, file.path.substr(start.size()))));
    }
  }

  void unpack(const ContextFile& source, const std::string& place, std::vector<TarEntry>& entries) {
    const std::string folder = fmt::format("unpacked-{}-{}", at_->line, entries.size());
    try {
      for (TarEntry& entry : unpack_tar(join_path(context_.folder, source.path),
                                        join_path(options_.layers, folder), place)) {
        entries.push_back(std::move(entry));
      }
    } catch (const Error& error) {
      fail_at(file_, *at_,
              fmt::format("{} cannot be unpacked here: {}; COPY its files, or {}", source.path,
                          error.what(), kInstead));
    }
  }

  void check_place(const TarEntry& entry) const {
    for (const char* link : kLikelyLinks) {
      if (entry.path != link && !entry.path.starts_with(std::string(link) + "/")) continue;
      fail_at(
          file_, *at_,
          fmt::format("{} is a link in most images, which a layer made here would replace; copy "
                      "to /usr{} or /usr/local instead, or {}",
                      link, link, kInstead));
    }
  }

  const Dockerfile& file_;
  const BuildContext& context_;
  const BuildOptions& options_;
  const Instruction* at_ = nullptr;
  std::optional<Image> image_;
  std::map<std::string, Image> stages_;
  std::map<std::string, std::string> global_, arguments_;
  std::set<std::string> folders_;  // that are known to be some, absolute
  std::string stage_;
  bool from_nothing_ = false, has_command_ = false;
};

}  // namespace

std::optional<std::string> why_not_here(const Dockerfile& file) {
  for (const Instruction& instruction : file.instructions) {
    const bool known = std::any_of(kBuiltHere.begin(), kBuiltHere.end(),
                                   [&](const char* name) { return instruction.name == name; });
    const bool from = std::any_of(instruction.flags.begin(), instruction.flags.end(),
                                  [](const auto& flag) { return flag.first == "from"; });
    if (known && !from && !instruction.here_document) continue;
    return fmt::format("{}:{}: {}{} cannot be done without a program that builds images; {}",
                       file.path, instruction.line, instruction.name,
                       from                        ? " --from"
                       : instruction.here_document ? " with <<"
                                                   : "",
                       kInstead);
  }
  return std::nullopt;
}

Image build_dockerfile(const Dockerfile& file, const BuildContext& context,
                       const BuildOptions& options) {
  if (const auto why = why_not_here(file)) fail("{}", *why);
  return Builder(file, context, options).build();
}

Image build_project(Image base, const BuildContext& context, const BuildOptions& options) {
  std::vector<TarEntry> entries = {{kAppFolder, TarEntry::Kind::folder, "", 0755}};
  for (const ContextFile& file : context.files) {
    entries.push_back(entry_of(context, file, join_path(kAppFolder, file.path)));
  }
  LayerOptions layer;
  layer.time = source_date_epoch();
  append_layer(base, write_layer(std::move(entries), join_path(options.layers, "project"), layer),
               "adaptdl image build");
  settings(base)["WorkingDir"] = kAppFolder;
  note_setting(base, fmt::format("WORKDIR {}", kAppFolder));
  return base;
}

}  // namespace adaptdl::oci
