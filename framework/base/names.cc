#include "framework/base/names.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

// Edit distance of Levenshtein (1965), row by row.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string DidYouMean(absl::string_view wanted,
                       absl::Span<const std::string> known) {
  constexpr size_t kMostLetters = 100;  // Longer texts are no misspelt names.
  if (wanted.size() > kMostLetters) return "";
  const std::string lower = absl::AsciiStrToLower(wanted);
  size_t least = lower.size() / 3 + 1;
  const std::string* nearest = nullptr;
  for (const std::string& name : known) {
    const size_t distance = Distance(lower, absl::AsciiStrToLower(name));
    if (distance < least) {
      least = distance;
      nearest = &name;
    }
  }
  if (nearest == nullptr) return "";
  return absl::StrCat(" (did you mean ", *nearest, "?)");
}

std::string DidYouMeanOrKnown(absl::string_view wanted,
                              absl::Span<const std::string> known) {
  std::string nearest = DidYouMean(wanted, known);
  if (!nearest.empty()) return nearest;
  return absl::StrCat("; known: ", absl::StrJoin(known, ", "));
}

absl::Status UnknownNameError(absl::string_view what, absl::string_view name,
                              absl::Span<const std::string> known) {
  return absl::InvalidArgumentError(
      absl::StrCat("unknown ", what, " \"", name, "\"", DidYouMean(name, known),
                   "; known: ", absl::StrJoin(known, ", ")));
}

}  // namespace tutti
