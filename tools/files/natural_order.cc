#include "tools/files/natural_order.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"

namespace tutti {
namespace {

bool StartsWithDigit(absl::string_view text) {
  return !text.empty() && absl::ascii_isdigit(text[0]);
}

// Takes the leading digits off `text` and returns them without leading zeros.
absl::string_view TakeNumber(absl::string_view* text) {
  size_t end = 0;
  while (end < text->size() && absl::ascii_isdigit((*text)[end])) ++end;
  absl::string_view digits = text->substr(0, end);
  text->remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

// Returns a negative number, zero or a positive number. The arguments have no
// leading zeros.
int CompareNumbers(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

// Takes a number or one other byte off each text and compares the two.
int CompareNext(absl::string_view* a, absl::string_view* b) {
  if (StartsWithDigit(*a) && StartsWithDigit(*b)) {
    return CompareNumbers(TakeNumber(a), TakeNumber(b));
  }
  const int order = a->substr(0, 1).compare(b->substr(0, 1));
  a->remove_prefix(1);
  b->remove_prefix(1);
  return order;
}

}  // namespace

bool NaturalLess(absl::string_view a, absl::string_view b) {
  absl::string_view rest_a = a;
  absl::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    const int order = CompareNext(&rest_a, &rest_b);
    if (order != 0) return order < 0;
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;
}

}  // namespace tutti
