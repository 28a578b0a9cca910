"""The public names of krogh, by what they are for: type checkers read them here, and so does `krogh/__init__.py`."""

# ruff: noqa: I001 (in the order of the documentation)

# --- what is learned, and what is computed ---
from krogh.tasks import (
    BooleanTask as BooleanTask,
    CentredSquareLink as CentredSquareLink,
    CircuitFunction as CircuitFunction,
    ClassificationTask as ClassificationTask,
    Curriculum as Curriculum,
    DirichletRows as DirichletRows,
    DisjointParity as DisjointParity,
    DoublyStochastic as DoublyStochastic,
    Examples as Examples,
    GivenRows as GivenRows,
    GroupComposition as GroupComposition,
    Hard as Hard,
    Interpolated as Interpolated,
    Inversion as Inversion,
    LetterCount as LetterCount,
    LetterPositions as LetterPositions,
    LinearLink as LinearLink,
    MarkovChains as MarkovChains,
    MeanLink as MeanLink,
    Mixture as Mixture,
    Parity as Parity,
    ParityClasses as ParityClasses,
    ParityControl as ParityControl,
    Prior as Prior,
    RegularLanguage as RegularLanguage,
    RidgeLink as RidgeLink,
    Rows as Rows,
    SingleBlip as SingleBlip,
    SparseBoolean as SparseBoolean,
    StringParity as StringParity,
    Substring as Substring,
    SymbolTask as SymbolTask,
    System as System,
    Table as Table,
    Task as Task,
    TokenConvolution as TokenConvolution,
    TokenRegression as TokenRegression,
    TokenSum as TokenSum,
    TwoLayerLink as TwoLayerLink,
    Unigram as Unigram,
    WholeSequence as WholeSequence,
    balanced as balanced,
    circuit_function as circuit_function,
    coherence as coherence,
    find_tables as find_tables,
    gate as gate,
    keep_table as keep_table,
    paper_dimension as paper_dimension,
    parity_rows as parity_rows,
    read_csv as read_csv,
    rows_of as rows_of,
    sign_codes as sign_codes,
    sparse_and as sparse_and,
    sparse_or as sparse_or,
    sparse_xor as sparse_xor,
    task as task,
)
from krogh.programs.automata import (
    Automaton as Automaton,
    from_regex as from_regex,
)
from krogh.programs.circuits import (
    Circuit as Circuit,
    load_circuit as load_circuit,
)
from krogh.programs.groups import (
    Group as Group,
    load_group as load_group,
)
from krogh.programs.machines import (
    Machine as Machine,
    load_machine as load_machine,
)

# --- who learns, how, and what is observed ---
from krogh.models import (
    Additive as Additive,
    AttentionBlocks as AttentionBlocks,
    AttentionMlp as AttentionMlp,
    CausalTransformer as CausalTransformer,
    DeepMlp as DeepMlp,
    DisjointPolyNet as DisjointPolyNet,
    Feedforward as Feedforward,
    HomogeneousNetwork as HomogeneousNetwork,
    Learner as Learner,
    LinearAttention as LinearAttention,
    LipschitzRnn as LipschitzRnn,
    MergedAttention as MergedAttention,
    MinimalInduction as MinimalInduction,
    Mlp as Mlp,
    Model as Model,
    Neuron as Neuron,
    PairNetwork as PairNetwork,
    ParityTransformer as ParityTransformer,
    PolyNet as PolyNet,
    PowerNetwork as PowerNetwork,
    RandomForest as RandomForest,
    ElmanRnn as ElmanRnn,
    Recurrent as Recurrent,
    ResidualRnn as ResidualRnn,
    SparseTransformer as SparseTransformer,
    StateSpace as StateSpace,
    TokenAttention as TokenAttention,
    configuration as configuration,
    model as model,
    power_mlp as power_mlp,
)
from krogh.training import (
    Adam as Adam,
    Constant as Constant,
    Cosine as Cosine,
    Epochs as Epochs,
    EuclideanNorm as EuclideanNorm,
    FullBatch as FullBatch,
    Inverse as Inverse,
    Momentum as Momentum,
    MARGIN_PRESETS as MARGIN_PRESETS,
    NeuronNorm as NeuronNorm,
    Offline as Offline,
    Online as Online,
    Penalty as Penalty,
    Piecewise as Piecewise,
    Population as Population,
    RmsProp as RmsProp,
    Sgd as Sgd,
    Stopping as Stopping,
    Training as Training,
    Truncated as Truncated,
    doublings as doublings,
)
from krogh.probes import (
    AttentionScores as AttentionScores,
    BatchLoss as BatchLoss,
    Error as Error,
    FourierPower as FourierPower,
    IrrepPower as IrrepPower,
    Margin as Margin,
    Moment as Moment,
    Movement as Movement,
    NeuronCounts as NeuronCounts,
    NeuronEfficiency as NeuronEfficiency,
    NeuronShares as NeuronShares,
    Probe as Probe,
    StrategyDistances as StrategyDistances,
    SupportWeight as SupportWeight,
    probe as probe,
)
from krogh.probes.views import (
    Bars as Bars,
    HeatMap as HeatMap,
    Lines as Lines,
    Look as Look,
    Numbers as Numbers,
    panels_of as panels_of,
    view as view,
)

# --- what is known beforehand, and what is written by hand ---
from krogh.theory import (
    predict as predict,
    prediction as prediction,
)
from krogh.networks import (
    Construction as Construction,
    Handmade as Handmade,
    construct as construct,
    construction as construction,
    load_network as load_network,
)
from krogh.networks.automata import compile_automaton as compile_automaton
from krogh.networks.circuits import compile_circuit as compile_circuit
from krogh.networks.counting import compile_counting as compile_counting
from krogh.networks.machines.compiled import compile_machine as compile_machine
from krogh.networks.torch_export import to_torch as to_torch

# --- how trials are trained ---
from krogh.engine import (
    Drawn as Drawn,
    Given as Given,
    Inherited as Inherited,
    Pruning as Pruning,
    Trial as Trial,
    Trials as Trials,
    Weights as Weights,
    stack as stack,
    sweep as sweep,
)

# --- experiments and their pages ---
from krogh.lab import (
    Chart as Chart,
    Claim as Claim,
    Claims as Claims,
    Curve as Curve,
    Estimate as Estimate,
    Experiment as Experiment,
    Figure as Figure,
    Results as Results,
    Tables as Tables,
    curves as curves,
    experiment as experiment,
    groups as groups,
    judge_study as judge_study,
    need as need,
    run_study as run_study,
    setting as setting,
    Surface as Surface,
    surface as surface,
    times_of as times_of,
)
from krogh.lab.runs import run as run
from krogh.lab.frames import write_frames as write_frames
from krogh.lab.opening import (
    OpenStudy as OpenStudy,
    TrialWeights as TrialWeights,
    open_study as open_study,
)
from krogh.lab.exporting import (
    to_csv as to_csv,
    to_pandas as to_pandas,
    to_xarray as to_xarray,
)
from krogh.lab.planning import (
    CostPlan as CostPlan,
    plan_costs as plan_costs,
)
from krogh.report import (
    write_replay as write_replay,
    write_report as write_report,
)

# --- what a new class is made with ---
from krogh.errors import (
    KroghError as KroghError,
    require as require,
)
from krogh.values import (
    data as data,
    structure as structure,
)

__version__: str
