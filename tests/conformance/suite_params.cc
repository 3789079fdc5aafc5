#include "tests/conformance/suite_params.h"

#include "absl/strings/str_cat.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/implementation_under_test.h"

namespace tutti::conformance {

bool Any(CollectiveType /*type*/) { return true; }

std::vector<TypeOnGrid> TypesOnGrids(int min_ranks,
                                     bool (*wanted)(CollectiveType)) {
  std::vector<TypeOnGrid> params;
  for (const CollectiveType type : UnderTest().traits().collectives) {
    if (!wanted(type)) continue;
    for (const Grid& grid : Grids(UnderTest().quick)) {
      if (grid.size() >= min_ranks) params.push_back({type, grid});
    }
  }
  return params;
}

std::vector<TypeOnGrid> TypesOnGridsWithLengths() {
  std::vector<TypeOnGrid> params;
  for (const TypeOnGrid& param : TypesOnGrids(/*min_ranks=*/1)) {
    for (const int64_t length : Lengths(param.type, UnderTest().quick)) {
      params.push_back({param.type, param.grid, length});
    }
  }
  return params;
}

std::string NameWithLength(const testing::TestParamInfo<TypeOnGrid>& info) {
  return absl::StrCat(NameWithoutLength(info), "_", info.param.length);
}

std::string NameWithoutLength(const testing::TestParamInfo<TypeOnGrid>& info) {
  return absl::StrCat(Name(info.param.type), "_", ToString(info.param.grid));
}

}  // namespace tutti::conformance
