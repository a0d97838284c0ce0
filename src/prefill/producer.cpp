// SPDX-License-Identifier: Apache-2.0
#include "prefill/producer.h"

namespace isthmus {

Identity producer_identity(const ModelConfig& config, const Digest& weights, std::string_view isa_rung) {
  Json fields;
  fields["kind"] = "isthmus-prefill";
  fields["version"] = 1;
  fields["arithmetic"] = kPromptArithmetic;
  fields["family"] = config.family;
  fields["model"] = arithmetic_json(config);
  fields["weights"] = weights.hex();
  fields["isa_rung"] = isa_rung;
  return Identity::of(std::move(fields));
}

}  // namespace isthmus
