#include "core/job/training_spec.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/formats/yaml.h"
#include "core/job/setting_field.h"
#include "core/job/training_checks.h"

namespace adaptdl {
namespace {

using namespace settings;

constexpr size_t kMaxSources = 64, kMaxGroups = 1024, kMaxParts = 1024, kMaxNumbers = 1024;
constexpr size_t kMaxText = 4096;

std::vector<std::string> choice_names(const Field& field) {
  return {field.choices.begin(), field.choices.end()};
}

int64_t read_integer(const YamlNode& node, const NumberBounds& bounds) {
  // Bounds of integers are whole and below 2^53, except that natural numbers have no upper bound.
  const auto bound = [](double value, int64_t none) {
    return std::isfinite(value) ? static_cast<int64_t>(value) : none;
  };
  return node.integer(bound(bounds.low, std::numeric_limits<int64_t>::min()),
                      bound(bounds.high, std::numeric_limits<int64_t>::max()));
}

std::string read_text(const YamlNode& node) {
  std::string text = node.text();
  if (text.size() > kMaxText) {
    node.refuse(fmt::format("has {} characters; at most {} are allowed", text.size(), kMaxText));
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      node.refuse("contains a control character; remove it");
    }
  }
  return text;
}

Value read_value(const YamlNode& node, const Field& field) {
  switch (field.type) {
    case Type::text:
      if (field.choices.empty()) return read_text(node);
      return std::string(field.choices[node.choice(choice_names(field))]);
    case Type::integer:
      return read_integer(node, field.bounds);
    case Type::natural:
      return static_cast<uint64_t>(read_integer(node, field.bounds));
    case Type::real:
      return node.number(field.bounds);
    case Type::duration:
      return parse_duration(node.text(), node.place(), field.bounds.low, field.bounds.high);
    case Type::boolean:
      return node.boolean();
    case Type::choice:
      return static_cast<int64_t>(node.choice(choice_names(field)));
    case Type::integers: {
      std::vector<int64_t> numbers;
      for (const YamlNode& item : node.list(0, kMaxNumbers)) {
        numbers.push_back(read_integer(item, field.bounds));
      }
      return numbers;
    }
    case Type::reals: {
      std::vector<double> numbers;
      for (const YamlNode& item : node.list(0, kMaxNumbers)) {
        numbers.push_back(item.number(field.bounds));
      }
      return numbers;
    }
    case Type::texts: {
      std::vector<std::string> texts;
      for (const YamlNode& item : node.list(0, kMaxNumbers)) texts.push_back(read_text(item));
      return texts;
    }
    case Type::range: {
      const auto items = node.list(2, 2);
      const int64_t low = items[0].integer(0, std::numeric_limits<int>::max());
      const int64_t high = items[1].integer(low + 1, std::numeric_limits<int>::max());
      return std::pair<int, int>(static_cast<int>(low), static_cast<int>(high));
    }
  }
  ADAPTDL_CHECK(!"field of unknown type");
  return {};
}

// Reads the document by the table of fields, and remembers the place of each field.
class SpecReader {
 public:
  explicit SpecReader(bool own_data) : own_data_(own_data) {}

  TrainingSpec read(const YamlNode& document) {
    YamlMapping top(document);
    refuse_newer_format(top);
    const Table& fields = table();
    read_fields(top, fields.root, &spec_, "");
    read_data(top);
    read_batch(top);
    read_optimizer(top);
    read_schedule(top);
    read_optional(top, "from", fields.from, spec_.from);
    read_optional(top, "best", fields.best, spec_.best);
    read_optional(top, "early_stopping", fields.early_stopping, spec_.early_stopping);
    top.finish();
    check_and_complete(spec_, places_, own_data_);
    return std::move(spec_);
  }

 private:
  // Called first: a newer format may have unknown keys and types.
  static void refuse_newer_format(YamlMapping& top) {
    const YamlNode format = top.find("format");
    if (!format.present()) return;
    const int64_t number = format.integer(1);
    if (number > 1) {
      format.refuse(fmt::format(
          "the settings have format {}, but this adaptdl reads format 1; get a newer adaptdl",
          number));
    }
  }

  const YamlNode& remember(const YamlNode& node) { return places_[node.path()] = node; }

  // Reads the fields of `section` into `object`. `kind`: the section's kind, for fields that only
  // some kinds have; a section's own field `kind` or `format` comes first in the table.
  void read_fields(YamlMapping& map, const Section& section, void* object, std::string_view kind,
                   bool all_optional = false) {
    for (const Field& field : section.fields) {
      const YamlNode node = remember(map.find(field.key));
      if (!node.present()) {
        if (field.required && !all_optional) {
          node.refuse(fmt::format("is missing; it must be {}", allowed(field)));
        }
        continue;
      }
      if (!applies_to(field, kind)) {
        node.refuse(fmt::format("is not a setting of {}; it belongs to {}", kind,
                                fmt::join(field.applies, ", ")));
      }
      field.set(object, read_value(node, field));
    }
  }

  // The kind of a map, read into `object` before its other fields.
  std::string_view read_kind(YamlMapping& map, const Section& section, void* object) {
    const Field& field = section.fields.front();
    const YamlNode node = remember(map.find(field.key));
    if (node.present()) {
      field.set(object, static_cast<int64_t>(node.choice(choice_names(field))));
    }
    return field.choices[static_cast<size_t>(std::get<int64_t>(field.get(object)))];
  }

  void read_data(YamlMapping& top) {
    const YamlNode data = remember(own_data_ ? top.find("data") : top.require("data"));
    if (!data.present()) return;
    YamlMapping map(data);
    read_fields(map, table().data, &spec_.data, "");
    const YamlNode train = own_data_ ? map.find("train") : map.require("train");
    if (train.present()) read_sources(train, spec_.data.train);
    const YamlNode validation = remember(map.find("validation"));
    if (validation.present()) read_sources(validation, spec_.data.validation);
    map.finish();
  }

  void read_sources(const YamlNode& node, std::vector<DataSource>& sources) {
    remember(node);
    for (const YamlNode& item : node.list(1, kMaxSources)) {
      YamlMapping map(remember(item));
      DataSource source;
      const std::string_view format = read_kind(map, table().source, &source);
      read_fields(map, table().source, &source, format);
      map.finish();
      sources.push_back(std::move(source));
    }
  }

  void read_batch(YamlMapping& top) {
    YamlMapping map(remember(top.require("batch")));
    read_fields(map, table().batch, &spec_.batch, "");
    const YamlNode both = map.find("atomic");
    if (both.present()) {
      for (const char* name : {"atomic_min", "atomic_max"}) {
        const YamlNode other = map.find(name);
        if (other.present()) other.refuse("is already given by batch.atomic; give one of the two");
      }
      const auto items = both.list(2, 2);
      const auto limit = static_cast<int64_t>(Access<&BatchSpec::initial>::limit());
      spec_.batch.atomic_min = items[0].integer(1, limit);
      spec_.batch.atomic_max = items[1].integer(1, limit);
      places_[items[0].path()] = places_["batch.atomic_min"] = items[0];
      places_[items[1].path()] = places_["batch.atomic_max"] = items[1];
    }
    map.finish();
  }

  void read_optimizer(YamlMapping& top) {
    YamlMapping map(remember(top.require("optimizer")));
    OptimizerSpec& optimizer = spec_.optimizer;
    const std::string_view kind = read_kind(map, table().optimizer, &optimizer);
    read_fields(map, table().optimizer, &optimizer, kind);
    optimizer.defaults = default_settings(optimizer.kind);
    read_fields(map, table().optimizer_numbers, &optimizer.defaults, kind);
    const YamlNode groups = remember(map.find("groups"));
    if (groups.present()) {
      for (const YamlNode& item : groups.list(0, kMaxGroups)) {
        YamlMapping entry(remember(item));
        ParameterGroup group;
        group.settings = optimizer.defaults;
        read_fields(entry, table().group, &group, kind);
        read_fields(entry, table().optimizer_numbers, &group.settings, kind, true);
        entry.finish();
        optimizer.groups.push_back(std::move(group));
      }
    }
    map.finish();
  }

  void read_schedule(YamlMapping& top) {
    const YamlNode schedule = remember(top.find("schedule"));
    if (!schedule.present()) return;
    for (const YamlNode& item : schedule.list(0, kMaxParts)) {
      YamlMapping map(remember(item));
      SchedulePart part;
      const std::string_view kind = read_kind(map, table().schedule, &part);
      part = default_part(part.kind);
      read_fields(map, table().schedule, &part, kind);
      map.finish();
      spec_.schedule.push_back(std::move(part));
    }
  }

  template <typename T>
  void read_optional(YamlMapping& top, const char* key, const Section& section,
                     std::optional<T>& settings) {
    const YamlNode node = remember(top.find(key));
    if (!node.present()) return;
    YamlMapping map(node, true);
    read_fields(map, section, &settings.emplace(), "");
    map.finish();
  }

  bool own_data_;
  TrainingSpec spec_;
  Places places_;
};

}  // namespace

OptimizerSettings default_settings(OptimizerSpec::Kind kind) {
  OptimizerSettings settings;
  if (kind == OptimizerSpec::Kind::adadelta) settings.lr = 1.0;
  if (kind == OptimizerSpec::Kind::lion) settings.beta2 = 0.99;
  return settings;
}

SchedulePart default_part(SchedulePart::Kind kind) {
  SchedulePart part;
  part.kind = kind;
  if (kind == SchedulePart::Kind::linear) {
    part.start_factor = 1.0 / 3;
    part.final_factor = 1.0;
  }
  return part;
}

TrainingSpec parse_training_spec(const std::string& yaml, const std::string& file,
                                 const std::vector<std::string>& overrides, bool own_data) {
  return SpecReader(own_data).read(parse_yaml(yaml, file, overrides));
}

void fit_schedule(TrainingSpec& spec) {
  if (spec.schedule.empty() || !spec.schedule.back().to_end) return;
  double before = 0.0;
  for (size_t i = 0; i + 1 < spec.schedule.size(); ++i) before += spec.schedule[i].epochs;
  SchedulePart& last = spec.schedule.back();
  if (spec.epochs > before) {
    last.epochs = spec.epochs - before;
  } else if (last.epochs == 0) {
    fail("schedule.{}.epochs: {}", spec.schedule.size() - 1, settings::nothing_left(spec.epochs));
  }
}

}  // namespace adaptdl
