(ns app
  (:require ["http" :as http]
            ["stream/consumers" :as consumers]
            [promesa.core :as p]))

(defmulti answer (fn [{:keys [method path]}] [method path]))

(defmethod answer ["GET" "/"] [_]
  {:status 200 :headers {"content-type" "application/json"} :body "{\"status\":\"ok\"}"})

(defmethod answer ["POST" "/echo"] [{:keys [type body]}]
  {:status 200 :headers (if type {"content-type" type} {}) :body body})

(defmethod answer :default [_]
  {:status 404 :headers {} :body ""})

(defn serve [incoming outgoing]
  (p/let [body (consumers/buffer incoming)
          {:keys [status headers body]}
          (answer {:method (.-method incoming)
                   :path (.-pathname (js/URL. (.-url incoming) "http://localhost"))
                   :type (aget (.-headers incoming) "content-type")
                   :body body})]
    (.writeHead outgoing status (clj->js headers))
    (.end outgoing body)))

(.listen (http/createServer serve) (js/Number js/process.env.PORT))
