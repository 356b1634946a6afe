from .blackwell import (
    Order as Order,
    blackwell_order as blackwell_order,
    garbling as garbling,
    refines as refines,
)
from .calibrate import Calibration as Calibration, calibrate as calibrate
from .limit import Limit as Limit, limit as limit
from .optimise import (
    Contender as Contender,
    MaskFamily as MaskFamily,
    Optimum as Optimum,
    Search as Search,
    optimise as optimise,
)
from .publishing import PublishingPrice as PublishingPrice, price_of_publishing as price_of_publishing
from .record_risk import RecordRisk as RecordRisk, record_risk as record_risk
from .sensitivity import Sensitivity as Sensitivity, Variation as Variation, sensitivity as sensitivity
from .sensitivity.power import power_scaling as power_scaling
from .worth import (
    Worth as Worth,
    one_more_digit as one_more_digit,
    one_more_record as one_more_record,
    one_more_variable as one_more_variable,
    worth as worth,
)
