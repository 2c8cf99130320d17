// The table of settings as text: for `adaptdl inspect` and for the manual.

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/job/setting_field.h"
#include "core/job/training_manual.h"
#include "core/job/training_spec.h"

namespace adaptdl {
namespace settings {

bool applies_to(const Field& field, std::string_view kind) {
  return field.applies.empty() ||
         std::find(field.applies.begin(), field.applies.end(), kind) != field.applies.end();
}

namespace {

std::string with_bounds(const NumberBounds& bounds) {
  const bool from = std::isfinite(bounds.low), to = std::isfinite(bounds.high) && bounds.high < 1e9;
  if (from && to && bounds.low == bounds.high) {
    return fmt::format(" (only {})", format_number(bounds.low));
  }
  std::string text;
  if (from) {
    text +=
        fmt::format(" {} {}", bounds.low_excluded ? "above" : "from", format_number(bounds.low));
  }
  if (to) {
    text +=
        fmt::format(" {} {}", bounds.high_excluded ? "to below" : "to", format_number(bounds.high));
  }
  return text;
}

}  // namespace

std::string allowed(const Field& field) {
  const std::string unit = field.unit.empty() ? "" : fmt::format(", in {}", field.unit);
  switch (field.type) {
    case Type::text:
    case Type::choice:
      if (field.choices.empty()) return "text";
      return fmt::format("one of {}", fmt::join(field.choices, ", "));
    case Type::integer:
    case Type::natural:
      return "an integer" + with_bounds(field.bounds) + unit;
    case Type::real:
      return "a number" + with_bounds(field.bounds) + unit;
    case Type::duration:
      return "a duration, in seconds or such as 90m or 1h30m";
    case Type::boolean:
      return "true or false";
    case Type::integers:
      return "a list of integers" + with_bounds(field.bounds) + unit;
    case Type::reals:
      return "a list of numbers" + with_bounds(field.bounds) + unit;
    case Type::texts:
      return "a list of texts";
    case Type::range:
      return "a list of two integers";
  }
  return "";
}

std::string to_text(const Field& field, const Value& value) {
  struct Writer {
    const Field& field;
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(int64_t number) const {
      if (field.type == Type::choice)
        return std::string(field.choices[static_cast<size_t>(number)]);
      return fmt::format("{}", number);
    }
    std::string operator()(uint64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const {
      return format_number(number) + (field.type == Type::duration && number > 0 ? "s" : "");
    }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(const std::vector<int64_t>& numbers) const {
      return numbers.empty() ? "" : fmt::format("[{}]", fmt::join(numbers, ", "));
    }
    std::string operator()(const std::vector<double>& numbers) const {
      std::string text;
      for (const double number : numbers) {
        text += (text.empty() ? "[" : ", ") + format_number(number);
      }
      return text.empty() ? "" : text + "]";
    }
    std::string operator()(const std::vector<std::string>& texts) const {
      return texts.empty() ? "" : fmt::format("[{}]", fmt::join(texts, ", "));
    }
    std::string operator()(const std::pair<int, int>& both) const {
      return fmt::format("[{}, {}]", both.first, both.second);
    }
  };
  return std::visit(Writer{field}, value);
}

std::string default_text(const Section& section, const Field& field) {
  if (field.required) return "required";
  if (!field.fallback.empty()) return std::string(field.fallback);
  const std::string text = to_text(field, field.get(section.defaults));
  return text.empty() ? "none" : text;
}

}  // namespace settings

namespace {

using namespace settings;

class Describer {
 public:
  std::vector<SettingLine> run(const TrainingSpec& spec) {
    const Table& all = table();
    fields(all.root, &spec, "", "", {"legw_warmup_epochs", "rule"});
    // The values of these two depend on other fields.
    using Rule = TrainingSpec::ScalingRule;
    using Kind = OptimizerSpec::Kind;
    const bool plain = spec.optimizer.kind == Kind::sgd || spec.optimizer.kind == Kind::adagrad;
    const Rule rule = spec.rule.value_or(plain ? Rule::adascale : Rule::adamscale);
    TrainingSpec resolved;
    resolved.rule = rule;
    resolved.legw_warmup_epochs = spec.legw_warmup_epochs;
    for (const Field& field : all.root.fields) {
      const bool legw = field.key == "legw_warmup_epochs" && rule == Rule::legw;
      if (field.key == "rule" && spec.optimizer.kind == Kind::program && !spec.rule) {
        lines_.push_back({"rule", "(the program's own)", std::string(field.doc)});
      } else if (field.key == "rule" || legw) {
        line(field, &resolved, "");
      }
    }

    fields(all.data, &spec.data, "data.");
    sources("data.train.", spec.data.train);
    sources("data.validation.", spec.data.validation);
    fields(all.batch, &spec.batch, "batch.");
    if (spec.from) fields(all.from, &*spec.from, "from.");
    if (spec.best) fields(all.best, &*spec.best, "best.");
    if (spec.early_stopping) {
      fields(all.early_stopping, &*spec.early_stopping, "early_stopping.");
    }

    const std::string optimizer = first_choice(all.optimizer, &spec.optimizer);
    fields(all.optimizer, &spec.optimizer, "optimizer.", optimizer);
    fields(all.optimizer_numbers, &spec.optimizer.defaults, "optimizer.", optimizer);
    for (size_t i = 0; i < spec.optimizer.groups.size(); ++i) {
      const ParameterGroup& group = spec.optimizer.groups[i];
      const std::string at = fmt::format("optimizer.groups.{}.", i);
      fields(all.group, &group, at);
      for (const Field& field : all.optimizer_numbers.fields) {
        const bool differs = field.get(&group.settings) != field.get(&spec.optimizer.defaults);
        if (differs) line(field, &group.settings, at);
      }
    }
    for (size_t i = 0; i < spec.schedule.size(); ++i) {
      const SchedulePart& part = spec.schedule[i];
      fields(all.schedule, &part, fmt::format("schedule.{}.", i),
             first_choice(all.schedule, &part));
    }
    return std::move(lines_);
  }

 private:
  static std::string first_choice(const Section& section, const void* object) {
    const Field& field = section.fields.front();
    return to_text(field, field.get(object));
  }

  void line(const Field& field, const void* object, const std::string& prefix) {
    std::string value = to_text(field, field.get(object));
    if (value.empty()) {
      if (field.fallback.empty()) return;
      value = fmt::format("({})", field.fallback);
    }
    if (!field.unit.empty()) value += fmt::format(" {}", field.unit);
    lines_.push_back({prefix + std::string(field.key), value, std::string(field.doc)});
  }

  void fields(const Section& section, const void* object, const std::string& prefix,
              std::string_view kind = "", const std::vector<std::string_view>& without = {}) {
    for (const Field& field : section.fields) {
      const bool left_out = std::find(without.begin(), without.end(), field.key) != without.end();
      if (applies_to(field, kind) && !left_out) line(field, object, prefix);
    }
  }

  // Of a source, only fields that were set: most fields are for special cases.
  void sources(const std::string& prefix, const std::vector<DataSource>& sources) {
    const Section& section = table().source;
    for (size_t i = 0; i < sources.size(); ++i) {
      const std::string format = first_choice(section, &sources[i]);
      for (const Field& field : section.fields) {
        const bool said = field.get(&sources[i]) != field.get(section.defaults);
        if (!applies_to(field, format)) continue;
        if (said || field.key == "format")
          line(field, &sources[i], fmt::format("{}{}.", prefix, i));
      }
    }
  }

  std::vector<SettingLine> lines_;
};

// Escapes text for roff.
std::string roff_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '-') {
      result += "\\-";
    } else if (c == '\\') {
      result += "\\e";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += std::string("\\&") + c;
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
  }
  return result;
}

std::string sentence_case(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

void document_fields(std::string& out, Markup markup, const Section& section) {
  for (const Field& field : section.fields) {
    std::string rule = sentence_case(allowed(field));
    if (!field.applies.empty()) rule += fmt::format("; for {}", fmt::join(field.applies, ", "));
    const std::string fallback = default_text(section, field);
    const std::string kind = field.required ? "Required" : "Default: " + fallback;
    if (markup == Markup::roff) {
      out += fmt::format(".TP\n.B {}\n{}\n{}. {}.\n", roff_text(field.key), roff_text(field.doc),
                         roff_text(rule), roff_text(kind));
    } else {
      out += fmt::format("| `{}` | {} | {} | {} |\n", field.key, rule,
                         field.required ? "required" : fallback, field.doc);
    }
  }
}

}  // namespace

std::vector<SettingLine> describe(const TrainingSpec& spec) {
  return Describer().run(spec);
}

std::string document_training_settings(Markup markup) {
  const Table& all = table();
  std::string out;
  const auto section = [&](const Section& first, const Section* second = nullptr) {
    const std::string title = first.name.empty() ? "Top level" : std::string(first.name);
    if (markup == Markup::roff) {
      out += fmt::format(".SS \"{}\"\n{}\n", roff_text(title), roff_text(first.intro));
    } else {
      out +=
          fmt::format("### {}\n\n{}\n\n| key | allowed | default | meaning |\n|---|---|---|---|\n",
                      title, first.intro);
    }
    document_fields(out, markup, first);
    if (second != nullptr) document_fields(out, markup, *second);
    if (markup == Markup::markdown) out += "\n";
  };
  section(all.root);
  section(all.data);
  section(all.source);
  section(all.batch);
  section(all.optimizer, &all.optimizer_numbers);
  section(all.group);
  section(all.schedule);
  section(all.best);
  section(all.early_stopping);
  section(all.from);
  return out;
}

}  // namespace adaptdl
