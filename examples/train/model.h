#ifndef TUTTI_EXAMPLES_TRAIN_MODEL_H_
#define TUTTI_EXAMPLES_TRAIN_MODEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "examples/train/data.h"

namespace train {

// A perceptron with one hidden layer: 64 pixels, 32 rectified linear units, 10
// classes. Its parameters are one flat array: the weights of the hidden layer,
// unit by unit, then its biases, then the output layer's weights and biases. A
// gradient has the same layout.
inline constexpr int kNumHidden = 32;
inline constexpr int kNumParameters =
    kNumHidden * (kNumPixels + 1) + kNumClasses * (kNumHidden + 1);

// Random weights and zero biases. A seed gives the same bits on every machine.
std::vector<float> InitialParameters(uint32_t seed);

enum class Layer { kHidden, kOutput };

// A piece of the flat array: the weights of one unit, or a layer's biases.
struct Part {
  std::string name;  // "hidden/weights/31", "output/biases"
  Layer layer = Layer::kHidden;
  std::optional<int> unit;  // Nullopt: the biases.
  int begin = 0;
  int size = 0;
};

// All parts, in the array's order.
const std::vector<Part>& Parts();

// Gradient of the mean cross-entropy over some examples. The constructor
// computes the errors that all parts share; parts may then be computed in any
// order.
class Backpropagation {
 public:
  // REQUIRES: `examples` is not empty. The examples outlive the object.
  Backpropagation(absl::Span<const float> parameters,
                  absl::Span<const Example> examples);

  // The mean cross-entropy, in nats.
  double loss() const { return loss_; }

  // Sets `gradient`, which has part.size elements.
  void Compute(const Part& part, absl::Span<float> gradient) const;

 private:
  // Results for one example. An error is the derivative of the loss by a unit's
  // input.
  struct Pass {
    std::array<float, kNumHidden> activations;
    std::array<float, kNumHidden> hidden_errors;
    std::array<float, kNumClasses> output_errors;
  };

  const absl::Span<const Example> examples_;
  std::vector<Pass> passes_;  // In the order of the examples.
  double loss_ = 0;
};

// Sets `gradient` to the gradient of the mean cross-entropy over `examples`,
// and returns the mean cross-entropy in nats. REQUIRES: both arrays have
// kNumParameters elements, and `examples` is not empty.
double ComputeGradient(absl::Span<const float> parameters,
                       absl::Span<const Example> examples,
                       absl::Span<float> gradient);

struct Quality {
  double loss = 0;      // Mean cross-entropy, in nats.
  double accuracy = 0;  // Share of examples classified right.
};

// REQUIRES: as ComputeGradient.
Quality Evaluate(absl::Span<const float> parameters,
                 absl::Span<const Example> examples);

// Square root of the sum of squares.
double Norm(absl::Span<const float> values);

// Largest absolute difference between elements at the same index. REQUIRES: the
// arrays are equally long.
float LargestDifference(absl::Span<const float> a, absl::Span<const float> b);

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_MODEL_H_
