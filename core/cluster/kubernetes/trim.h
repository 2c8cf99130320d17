#pragma once

// What is kept in memory of the objects that are watched: of each only a little, so that nobody's
// objects, however large the API server lets them be, take the operator's memory. Pure; they take
// values of any type and never throw.

#include <string>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Bytes of memory of a job's template once it is parsed, which is many times its text where that is
// "[],[],...": some ten thousand short values take the most that a job may have. Of a template that
// takes more than is kept, only what the scheduler reads stays, which may be no larger than its own
// limit.
inline constexpr size_t kMostTemplate = 1u << 20, kMostKept = 32u << 10, kMostPlacement = 64u << 10;

// Why a template is too large for a job; "" if it is not.
std::string size_problem(const Json& pod_template);

// Keeps only what read_job() uses. Replaces the template of a job that is too deep or too large,
// for which read_job() then tells; abridges one that takes more than kMostKept; and keeps image,
// command and arguments alone of a job that has ended, of which no pod is made any more.
void trim_job(Json& object);

// The same, but only of a job that is too large.
void trim_if_too_large(Json& object);

// What trim_job() has noted about the object: that its template is too large ("" if not), or
// abridged, so that pods have to be made of the one that the API server has.
std::string noted_size_problem(const Json& object);
bool is_abridged(const Json& object);

// Keep only what read_pod(), pod_request() and read_node() use.
void trim_pod(Json& pod);
void trim_node(Json& node);

}  // namespace adaptdl::kubernetes
