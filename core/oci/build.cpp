#include "core/oci/build.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/oci/copy.h"

namespace adaptdl::oci {
namespace {

constexpr std::array kBuiltHere = {"ADD",    "ARG",  "CMD",   "COPY", "ENTRYPOINT", "ENV",
                                   "EXPOSE", "FROM", "LABEL", "USER", "MAINTAINER", "WORKDIR"};

struct Owner {
  uint32_t user, group;
};

class Builder {
 public:
  Builder(const Dockerfile& file, const BuildContext& context, const BuildOptions& options)
      : file_(file), context_(context), options_(options) {
    predefine("TARGET", options.platform);
    predefine("BUILD", this_platform());
    arguments_ = global_;
  }

  Image build() {
    for (const Instruction& instruction : file_.instructions) {
      at_ = &instruction;
      step();
    }
    if (!image_) fail("{}: has no FROM", file_.path);
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
      folders_.add(config["WorkingDir"].get<std::string>());
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
      if (!has_command_) config.erase("Cmd");  // the base's Cmd was for the base's Entrypoint
    } else if (name == "MAINTAINER") {
      image_->config["author"] = at_->text;
    } else {
      fail_at(file_, *at_, fmt::format("{} is not supported here; {}", name, kInstead));
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
  // Expands variables; split_words() returns their values unchanged.
  std::string expanded(const std::string& text) const {
    const auto lookup = [this](const std::string& name, char quote) -> std::optional<std::string> {
      const auto value = value_of(name);
      return value ? std::optional(escaped(*value, file_.escape, quote)) : std::nullopt;
    };
    return expand(text, file_.escape, lookup, where());
  }
  std::vector<std::string> words_of(const std::string& text) const {
    return split_words(expanded(text), file_.escape, where());
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
    if (!all.empty() && all[0].find('=') == std::string::npos) {  // the old form: NAME VALUE
      const size_t end = at_->text.find_first_of(" \t");
      if (end == std::string::npos) fail_at(file_, *at_, at_->name + " has no value");
      const std::string rest = at_->text.substr(at_->text.find_first_not_of(" \t", end));
      return {{all[0], unquoted(expanded(rest), file_.escape, where())}};
    }
    for (const std::string& word : all) {
      const size_t sign = word.find('=');
      if (sign == std::string::npos || sign == 0) {
        fail_at(file_, *at_, fmt::format("{} is not NAME=VALUE", word));
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

  // The predefined arguments. FROM can use them; a stage needs `ARG NAME`.
  void predefine(const std::string& side, const Platform& platform) {
    for (const auto& [what, value] : {std::pair("PLATFORM", to_string(platform)),
                                      {"OS", platform.os},
                                      {"ARCH", platform.architecture},
                                      {"VARIANT", platform.variant}}) {
      const auto given = options_.arguments.find(side + what);
      global_[side + what] = given == options_.arguments.end() ? value : given->second;
    }
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
    if (before && !stage_.empty()) stages_[stage_] = {*before, folders_};
    const std::vector<std::string> all = words();
    const bool named = all.size() == 3 && (all[1] == "AS" || all[1] == "as");
    if (all.size() != 1 && !named) fail_at(file_, *at_, "expected FROM IMAGE [AS NAME]");
    Platform platform = options_.platform;
    for (const auto& [name, value] : at_->flags) {
      if (name != "platform") unknown_flag(name);
      const std::vector<std::string> word = words_of(value);
      platform = parse_platform(word.empty() ? "" : word[0], where());
    }
    const auto stage = stages_.find(all[0]);
    if (stage != stages_.end()) {
      std::tie(image_, folders_) = stage->second;
    } else {
      image_ = all[0] == "scratch" ? empty_image(platform)
                                   : options_.base(parse_reference(all[0], where()), platform);
      folders_ = KnownFolders(*image_);
    }
    stage_ = named ? all[2] : "";
    has_command_ = false;
    arguments_.clear();
  }

  [[noreturn]] void unknown_flag(const std::string& name) const {
    fail_at(file_, *at_,
            fmt::format("{} --{} is not supported here; {}", at_->name, name, kInstead));
  }

  // A path in the image, relative to the working directory.
  std::string placed(const std::string& path) const {
    const Json inner = json_get_or<Json>(image_->config, "config", "config", Json::object());
    const auto directory = json_get_or<std::string>(inner, "WorkingDir", "config", "");
    return absolute_path(path.empty() ? "." : path, directory.starts_with('/') ? directory : "/");
  }

  void copy() {
    std::optional<Owner> given;  // without --chown what a tar unpacks to keeps its owners
    std::optional<mode_t> mode;
    for (const auto& [name, value] : at_->flags) {
      if (name == "chown") {
        given = owner(words_of(value));
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
        const auto lookup = [this](const std::string& name, char) { return value_of(name); };
        word = expand(word, file_.escape, lookup, where());
      }
    } else {
      all = words();
    }
    if (all.size() < 2) fail_at(file_, *at_, at_->name + " takes sources and a destination");
    const std::string last = all.back();
    all.pop_back();
    CopyRequest request{.sources = all, .place = placed(last)};
    request.into = last.ends_with('/') || last == "." || last.ends_with("/.");
    request.unpacks = at_->name == "ADD";
    request.unpacked = join_path(options_.layers, fmt::format("unpacked-{}", at_->line));
    const std::string path =
        join_path(options_.layers, fmt::format("layer-{}", image_->manifest["layers"].size()));
    try {
      std::vector<TarEntry> entries = copied_entries(request, context_, folders_);
      for (TarEntry& entry : entries) {
        if (mode && entry.kind == TarEntry::Kind::file) entry.mode = *mode;
        if (!given) continue;
        entry.user = given->user;
        entry.group = given->group;
      }
      LayerOptions options;
      options.time = source_date_epoch();
      append_layer(*image_,
                   write_layer(std::move(entries), path + "-" + std::to_string(at_->line), options),
                   at_->name + " " + at_->text);
    } catch (const Error& error) {
      fail_at(file_, *at_, error.what());
    }
  }

  Owner owner(const std::vector<std::string>& text) const {
    const std::string both = text.empty() ? "" : text[0];
    const size_t colon = std::min(both.find(':'), both.size());
    const auto number = [&](const std::string& name) -> uint32_t {
      if (name == "root") return 0;
      const auto parsed = try_parse<uint32_t>(name);
      if (!parsed) {
        fail_at(file_, *at_,
                fmt::format("--chown={}: only the image knows its user names; give numbers, or {}",
                            both, kInstead));
      }
      return *parsed;
    };
    const uint32_t user = number(both.substr(0, colon));
    return {user, colon < both.size() ? number(both.substr(colon + 1)) : user};
  }

  const Dockerfile& file_;
  const BuildContext& context_;
  const BuildOptions& options_;
  const Instruction* at_ = nullptr;
  std::optional<Image> image_;
  std::map<std::string, std::pair<Image, KnownFolders>> stages_;
  std::map<std::string, std::string> global_, arguments_;
  KnownFolders folders_;
  std::string stage_;
  bool has_command_ = false;
};

}  // namespace

std::optional<std::string> why_not_here(const Dockerfile& file) {
  for (const Instruction& instruction : file.instructions) {
    const bool known = std::any_of(kBuiltHere.begin(), kBuiltHere.end(),
                                   [&](const char* name) { return instruction.name == name; });
    const bool from = std::any_of(instruction.flags.begin(), instruction.flags.end(),
                                  [](const auto& flag) { return flag.first == "from"; });
    if (known && !from && !instruction.here_document) continue;
    return fmt::format("{}:{}: {}{} needs a build tool; {}", file.path, instruction.line,
                       instruction.name,
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
