#ifndef TUTTI_TOOLS_FILES_NATURAL_ORDER_H_
#define TUTTI_TOOLS_FILES_NATURAL_ORDER_H_

#include "absl/strings/string_view.h"

namespace tutti {

// Whether `a` comes before `b` where runs of digits count as numbers of any
// length: "rank2" before "rank10". A strict total order: names whose numbers
// are equal ("rank1", "rank01") are ordered by their bytes.
bool NaturalLess(absl::string_view a, absl::string_view b);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_NATURAL_ORDER_H_
