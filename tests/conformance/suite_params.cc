#include "tests/conformance/suite_params.h"

#include "absl/strings/str_cat.h"
#include "tests/conformance/case_lists.h"

namespace tutti::conformance {

bool Any(CollectiveType /*type*/) { return true; }

std::vector<Claim> ClaimsOnGrids(int min_ranks,
                                 bool (*wanted)(CollectiveType)) {
  std::vector<Claim> claims;
  for (const ImplementationUnderTest& under_test : UnderTest()) {
    if (!under_test.is_run) continue;
    for (const CollectiveType type : under_test.traits().collectives) {
      if (!wanted(type)) continue;
      for (const Grid& grid : Grids(under_test.tier)) {
        if (grid.size() < min_ranks) continue;
        claims.push_back({&under_test, type, grid});
      }
    }
  }
  return claims;
}

std::vector<Claim> ClaimsWithLengths() {
  std::vector<Claim> claims;
  for (Claim claim : ClaimsOnGrids(/*min_ranks=*/1)) {
    for (const int64_t length : Lengths(claim.type, claim.under_test->tier)) {
      claim.length = length;
      claims.push_back(claim);
    }
  }
  return claims;
}

std::string NameWithLength(const testing::TestParamInfo<Claim>& info) {
  return absl::StrCat(NameWithoutLength(info), "_", info.param.length);
}

std::string NameWithoutLength(const testing::TestParamInfo<Claim>& info) {
  return absl::StrCat(info.param.under_test->name, "_", Name(info.param.type),
                      "_", ToString(info.param.grid));
}

}  // namespace tutti::conformance
