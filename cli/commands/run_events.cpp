#include "cli/commands/run_events.h"

#include "cli/frame/output.h"

namespace adaptdl::cli {

void JsonStream::event(const Json& event) {
  if (broken_ || is_thinned_out(event)) return;
  try {
    print_json(event);
  } catch (const OutputClosed&) {
    broken_ = true;
  } catch (const Error& error) {
    talk(fmt::format("adaptdl: {}; training continues without the event stream", error.what()));
    broken_ = true;
  }
}

bool JsonStream::is_thinned_out(const Json& event) const {
  const auto kind = event.find("event");
  if (every_ == 1 || kind == event.end() || *kind != "step") return false;
  const auto step = event.find("step");
  if (every_ == 0 || step == event.end() || !step->is_number_integer()) return true;
  return step->get<int64_t>() % every_ != 0;
}

bool print_at_end(std::string_view text) {
  try {
    print(text);
    return true;
  } catch (const OutputClosed&) {
  } catch (const Error& error) {
    talk(fmt::format("adaptdl: {}", error.what()));
  }
  return false;
}

}  // namespace adaptdl::cli
