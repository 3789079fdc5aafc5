#include "implementations/parts/binomial_tree.h"

#include <cstdint>
#include <vector>

namespace tutti {

int BinomialParent(int position) { return position & (position - 1); }

std::vector<int> BinomialChildren(int position, int size) {
  std::vector<int> children;
  for (int64_t step = 1;
       (position & step) == 0 && position + step < int64_t{size}; step *= 2) {
    children.push_back(static_cast<int>(position + step));
  }
  return children;
}

int CeilLog2(int value) {
  int log = 0;
  while ((int64_t{1} << log) < value) ++log;
  return log;
}

}  // namespace tutti
